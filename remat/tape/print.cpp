#include "remat/tape/print.h"

#include <sstream>

#include <nlohmann/json.hpp>

namespace remat::tape {

namespace {

std::string name_of(ValueId value) { return value == kNone ? "_" : "%" + std::to_string(value); }

size_t depth_of(const Tape& tape, RegionId region) {
  size_t depth = 0;
  while ((region = tape.parent(region)) != kNone) ++depth;
  return depth;
}

/// "%3 = aten::mul(%1: float[4], %2: float[4])", with what a write replaces spelled "%5 <- %4".
std::string line_of(const Tape& tape, NodeId id) {
  const Call& call = *tape.node(id).call;
  std::ostringstream line;
  const auto written = tape.writes(id);
  const auto results = tape.results(id);
  const char* separator = "";
  for (size_t i = 0; i < written.size(); ++i, separator = ", ") {
    line << separator << name_of(written[i]) << " <- "
         << name_of(tape.reads(id)[call.writes[i].read]);
  }
  for (const ValueId value : results) line << std::exchange(separator, ", ") << name_of(value);
  line << " = " << call.op << "(";
  separator = "";
  for (size_t i = 0; i < call.reads.size(); ++i) {
    line << std::exchange(separator, ", ") << name_of(tape.reads(id)[i]) << ": "
         << to_text(call.reads[i]);
  }
  if (!call.arguments.empty()) line << separator << call.arguments;
  line << ")";
  for (const int64_t bytes : call.allocated) line << "  " << bytes << " B";
  if (tape.node(id).draw != kNone) line << "  draw " << tape.node(id).draw;
  return line.str();
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

nlohmann::json to_json(const Geometry& geometry) {
  const auto n = static_cast<ptrdiff_t>(geometry.dimensions());
  return {{"dtype", geometry.dtype.name},
          {"sizes", std::vector<int64_t>(geometry.extents.begin(), geometry.extents.begin() + n)},
          {"strides", std::vector<int64_t>(geometry.extents.begin() + n, geometry.extents.end())},
          {"offset", geometry.offset},
          {"conj", geometry.conjugate},
          {"neg", geometry.negative}};
}

nlohmann::json ids_of(std::span<const ValueId> values) {
  auto list = nlohmann::json::array();
  for (const ValueId value : values)
    list.push_back(value == kNone ? nlohmann::json() : nlohmann::json(value));
  return list;
}

nlohmann::json to_json(const Tape& tape, NodeId id) {
  const Call& call = *tape.node(id).call;
  nlohmann::json node = {{"op", call.op},
                         {"arguments", call.arguments},
                         {"region", tape.node(id).region},
                         {"random", call.random},
                         {"reads", ids_of(tape.reads(id))},
                         {"writes", ids_of(tape.writes(id))},
                         {"results", ids_of(tape.results(id))}};
  for (const Geometry& geometry : call.reads) node["read_geometry"].push_back(to_json(geometry));
  for (const Geometry& geometry : call.results)
    node["result_geometry"].push_back(to_json(geometry));
  return node;
}

}  // namespace

std::string to_text(const Tape& tape) {
  std::ostringstream text;
  RegionId region = kNone;
  for (NodeId id = 0; id < tape.nodes(); ++id) {
    const std::string indent(2 * depth_of(tape, tape.node(id).region), ' ');
    if (tape.node(id).region != region) {
      region = tape.node(id).region;
      text << indent << "region " << region << "\n";
    }
    text << indent << "  " << line_of(tape, id) << "\n";
  }
  for (const Saved& saved : tape.saved()) {
    text << "saved " << name_of(saved.value) << "  " << saved.bytes << " B  region " << saved.region
         << "\n";
  }
  for (const Name& name : tape.names())
    text << "named " << name_of(name.value) << "  " << name.text << "\n";
  return text.str();
}

std::string to_dot(const Tape& tape) {
  std::ostringstream dot;
  dot << "digraph tape {\n  node [shape=box, fontname=\"monospace\"];\n";
  for (NodeId id = 0; id < tape.nodes(); ++id) {
    const Node& node = tape.node(id);
    dot << "  subgraph cluster_" << node.region << " { label=\"region " << node.region << "\"; n"
        << id << " [label=\"" << escaped(node.call->op) << "\"]; }\n";
  }
  for (NodeId id = 0; id < tape.nodes(); ++id) {
    for (const ValueId value : tape.reads(id)) {
      if (value == kNone) continue;
      const NodeId producer = tape.value(value).producer;
      if (producer == kNone) {
        dot << "  v" << value << " [shape=ellipse, label=\"" << name_of(value) << "\"];\n";
      }
      dot << "  "
          << (producer == kNone ? "v" + std::to_string(value) : "n" + std::to_string(producer))
          << " -> n" << id << " [label=\"" << name_of(value) << "\"];\n";
    }
  }
  dot << "}\n";
  return dot.str();
}

std::string to_json(const Tape& tape) {
  nlohmann::json json = {{"format", "remat-tape-1"},          {"nodes", nlohmann::json::array()},
                         {"values", nlohmann::json::array()}, {"saved", nlohmann::json::array()},
                         {"names", nlohmann::json::array()},  {"regions", nlohmann::json::array()}};
  for (NodeId id = 0; id < tape.nodes(); ++id) json["nodes"].push_back(to_json(tape, id));
  for (ValueId id = 0; id < tape.values(); ++id) {
    const Value& value = tape.value(id);
    json["values"].push_back({{"buffer", value.buffer},
                              {"bytes", tape.buffer_bytes(value.buffer)},
                              {"version", value.version},
                              {"source", value.producer == kNone}});
  }
  for (const Saved& saved : tape.saved()) {
    json["saved"].push_back(
        {{"value", saved.value}, {"bytes", saved.bytes}, {"region", saved.region}});
  }
  for (const Name& name : tape.names())
    json["names"].push_back({{"value", name.value}, {"name", name.text}});
  for (RegionId id = 0; id < tape.regions(); ++id) {
    json["regions"].push_back(tape.parent(id) == kNone ? nlohmann::json()
                                                       : nlohmann::json(tape.parent(id)));
  }
  return json.dump(1);
}

}  // namespace remat::tape
