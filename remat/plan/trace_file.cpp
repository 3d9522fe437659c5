#include "remat/plan/trace_file.h"

#include <fstream>
#include <ostream>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace remat::plan {

namespace {

using nlohmann::json;

constexpr const char* kFormat = "remat-trace-1";

/// A field of one element; the error says of which.
template <typename T>
T field(const json& object, const char* name, const std::string& where) {
  try {
    return object.at(name).get<T>();
  } catch (const json::exception& error) {
    throw std::runtime_error("trace: \"" + std::string(name) + "\" of " + where + ": " +
                             error.what());
  }
}

TraceDocument::Op op_of(const json& object, const std::string& where) {
  TraceDocument::Op op{.name = field<std::string>(object, "name", where),
                       .us = field<double>(object, "us", where),
                       .reads = field<std::vector<ValueId>>(object, "in", where),
                       .makes = field<std::vector<ValueId>>(object, "out", where)};
  if (object.contains("random")) op.random = field<bool>(object, "random", where);
  if (object.contains("hash")) op.hash = field<uint64_t>(object, "hash", where);
  if (object.contains("extra")) op.extra_bytes = field<int64_t>(object, "extra", where);
  if (object.contains("workspace")) op.workspace = field<int64_t>(object, "workspace", where);
  return op;
}

TraceDocument::Step step_of(const json& object, const std::string& where) {
  TraceDocument::Step step{.op = field<OpId>(object, "op", where),
                           .reads = field<std::vector<ValueId>>(object, "reads", where)};
  if (object.contains("extra")) step.extra_bytes = field<int64_t>(object, "extra", where);
  if (object.contains("before")) step.before_bytes = field<int64_t>(object, "before", where);
  return step;
}

TraceDocument document_of(const json& root) {
  if (!root.is_object() || root.value("format", json()) != kFormat) {
    throw std::runtime_error(std::string("trace: no trace of the format \"") + kFormat + "\"");
  }
  TraceDocument document;
  document.base_us = field<double>(root, "base_us", "the trace");
  const auto where = [](const char* what, size_t i) { return what + std::to_string(i); };
  for (const json& object : field<json>(root, "ops", "the trace")) {
    document.ops.push_back(op_of(object, where("operator ", document.ops.size())));
  }
  for (const json& object : field<json>(root, "values", "the trace")) {
    const auto value = where("value ", document.bytes.size());
    document.bytes.push_back(field<int64_t>(object, "bytes", value));
    document.held_until.push_back(
        object.contains("held_until") ? field<OpId>(object, "held_until", value) : kNone);
  }
  for (const json& object : field<json>(root, "steps", "the trace")) {
    document.steps.push_back(step_of(object, where("step ", document.steps.size())));
  }
  return document;
}

}  // namespace

Trace read_trace(std::istream& in) {
  try {
    return Trace(document_of(json::parse(in)));
  } catch (const json::parse_error& error) {
    throw std::runtime_error(std::string("trace: no JSON: ") + error.what());
  }
}

Trace read_trace(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error(file.string() + ": cannot be read");
  try {
    return read_trace(in);
  } catch (const std::exception& error) {
    throw std::runtime_error(file.string() + ": " + error.what());
  }
}

void write_trace(const Trace& trace, std::ostream& out) {
  const TraceDocument& document = trace.document();
  json root{{"format", kFormat}, {"base_us", document.base_us}};
  auto& ops = root["ops"] = json::array();
  for (const auto& op : document.ops) {
    ops.push_back({{"name", op.name},
                   {"us", op.us},
                   {"in", op.reads},
                   {"out", op.makes},
                   {"random", op.random}});
    if (op.hash != 0) ops.back()["hash"] = op.hash;
    if (op.extra_bytes != 0) ops.back()["extra"] = op.extra_bytes;
    if (op.workspace != 0) ops.back()["workspace"] = op.workspace;
  }
  auto& values = root["values"] = json::array();
  for (ValueId value = 0; value < trace.values(); ++value) {
    values.push_back({{"bytes", trace.bytes(value)}});
    const OpId until = trace.last_forward(value);
    if (until > trace.last_touch(value)) values.back()["held_until"] = until;
  }
  auto& steps = root["steps"] = json::array();
  for (const auto& step : document.steps) {
    steps.push_back({{"op", step.op}, {"reads", step.reads}});
    if (step.extra_bytes != 0) steps.back()["extra"] = step.extra_bytes;
    if (step.before_bytes != 0) steps.back()["before"] = step.before_bytes;
  }
  out << root.dump() << "\n";
}

}  // namespace remat::plan
