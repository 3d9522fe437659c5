#include "tests/support/tape_literal.h"

#include <algorithm>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace remat::testing {

using tape::BufferId;
using tape::kNone;
using tape::NodeId;
using tape::ValueId;

namespace {

constexpr int64_t kDefaultElements = 4;

tape::Geometry floats(int64_t elements) {
  tape::Geometry geometry;
  geometry.dtype = {6, 4, "float32"};
  geometry.extents = {elements, 1};
  return geometry;
}

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  std::istringstream stream{std::string(text)};
  while (std::getline(stream, part, separator)) {
    if (part = trimmed(part); !part.empty()) parts.push_back(part);
  }
  return parts;
}

/// "b[64]" is 64 elements; takes the brackets off.
int64_t elements_of(std::string& name) {
  const auto bracket = name.find('[');
  if (bracket == std::string::npos) return kDefaultElements;
  const int64_t elements = std::stoll(name.substr(bracket + 1));
  name.resize(bracket);
  return elements;
}

tape::NodeId number_or(const std::ssub_match& match, uint32_t otherwise) {
  return match.matched ? static_cast<uint32_t>(std::stoul(match.str())) : otherwise;
}

}  // namespace

/// What a node is built from.
struct TapeLiteral::Operands {
  std::shared_ptr<tape::Call> call = std::make_shared<tape::Call>();
  std::vector<ValueId> reads;
  std::vector<BufferId> buffers;
  std::vector<std::string> made;  ///< the names that its new values get, in their order
};

TapeLiteral::TapeLiteral(std::string_view text) {
  std::string lines(text);
  std::replace(lines.begin(), lines.end(), '\n', ';');
  for (const std::string& statement : split(lines, ';')) add(statement);
}

void TapeLiteral::add(const std::string& statement) {
  static const std::regex region(R"(region (\d+) in (\d+))");
  static const std::regex save(R"(save ([\w.]+)(?: @(\d+))?)");
  static const std::regex node(R"((?:([^=(]+) = )?([\w:.]+)\((.*)\)(?: @(\d+))?(?: draw (\d+))?)");
  std::smatch match;
  if (std::regex_match(statement, match, region)) {
    const auto opened = tape.open_region(number_or(match[2], 0));
    if (opened != number_or(match[1], 0))
      throw std::invalid_argument("regions are numbered in order: " + statement);
  } else if (std::regex_match(statement, match, save)) {
    const ValueId saved = value(match.str(1));
    tape.add_saved(saved, number_or(match[2], 0), tape.buffer_bytes(tape.value(saved).buffer));
  } else if (std::regex_match(statement, match, node)) {
    add_node(match.str(1), match.str(2), match.str(3), number_or(match[4], 0),
             number_or(match[5], kNone));
  } else {
    throw std::invalid_argument("not a statement of a tape: " + statement);
  }
}

void TapeLiteral::add_node(const std::string& results, const std::string& op,
                           const std::string& arguments, tape::RegionId region, tape::DrawId draw) {
  Operands operands;
  operands.call->op = op;
  operands.call->random = draw != kNone;
  for (const std::string& argument : split(arguments, ',')) add_argument(argument, operands);
  for (const std::string& result : split(results, ',')) add_result(result, operands);
  const NodeId id = tape.add_node(operands.call, region, draw, operands.reads, operands.buffers);
  const auto writes = tape.writes(id);
  const auto made = tape.results(id);
  for (size_t i = 0; i < operands.made.size(); ++i) {
    const ValueId value = i < writes.size() ? writes[i] : made[i - writes.size()];
    versions_[operands.made[i]].push_back(value);
  }
}

void TapeLiteral::add_argument(const std::string& argument, Operands& operands) {
  if (argument.front() == '"') {
    operands.call->arguments = argument.substr(1, argument.size() - 2);
    return;
  }
  const bool overwrites = argument.front() == '&';
  const bool changes = argument.back() == '!';
  const std::string name =
      argument.substr(overwrites ? 1 : 0, argument.size() - (overwrites || changes ? 1 : 0));
  const ValueId value = name == "_" ? kNone : read(name);
  const int64_t bytes =
      value == kNone ? 4 * kDefaultElements : tape.buffer_bytes(tape.value(value).buffer);
  if (overwrites || changes) {
    operands.call->writes.push_back({static_cast<uint32_t>(operands.reads.size()), overwrites});
    operands.buffers.push_back(tape.value(value).buffer);
    operands.made.push_back(name);
  }
  operands.reads.push_back(overwrites ? kNone : value);
  operands.call->reads.push_back(floats(bytes / 4));
}

void TapeLiteral::add_result(std::string name, Operands& operands) {
  const int64_t elements = elements_of(name);
  operands.call->results.push_back(floats(elements));
  operands.call->allocated.push_back(4 * elements);
  operands.buffers.push_back(tape.add_buffer(4 * elements));
  operands.made.push_back(std::move(name));
}

ValueId TapeLiteral::read(const std::string& name) {
  if (versions_.count(name) == 0 && name.find('.') == std::string::npos) {
    versions_[name].push_back(tape.add_source(tape.add_buffer(4 * kDefaultElements)));
  }
  return value(name);
}

ValueId TapeLiteral::value(std::string_view name) const {
  const auto dot = name.find('.');
  const auto found = versions_.find(name.substr(0, dot));
  if (found == versions_.end())
    throw std::invalid_argument("the tape has no value " + std::string(name));
  if (dot == std::string_view::npos) return found->second.back();
  return found->second.at(std::stoul(std::string(name.substr(dot + 1))));
}

tape::SavedId TapeLiteral::saved(std::string_view name) const {
  const auto& all = tape.saved();
  const auto is_it = [&](const tape::Saved& saved) { return saved.value == value(name); };
  const auto found = std::find_if(all.begin(), all.end(), is_it);
  if (found == all.end()) throw std::invalid_argument("nothing saves " + std::string(name));
  return static_cast<tape::SavedId>(found - all.begin());
}

std::vector<ValueId> TapeLiteral::values(std::string_view names) const {
  std::vector<ValueId> values;
  for (const std::string& name : split(names, ' ')) values.push_back(value(name));
  return values;
}

tape::AtHand TapeLiteral::at_hand(std::string_view names) const {
  return [values = values(names)](ValueId value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
}

std::string TapeLiteral::ops(const std::vector<NodeId>& nodes) const {
  std::string text;
  for (const NodeId id : nodes) text += (text.empty() ? "" : " ") + tape.node(id).call->op;
  return text;
}

std::string TapeLiteral::names(const std::vector<bool>& flags) const {
  std::map<ValueId, std::string> in_order;
  for (const auto& [name, versions] : versions_) {
    for (size_t i = 0; i < versions.size(); ++i) {
      const bool latest = i + 1 == versions.size();
      in_order[versions[i]] = latest ? name : name + "." + std::to_string(i);
    }
  }
  std::string text;
  for (const auto& [value, name] : in_order) {
    if (flags[value]) text += (text.empty() ? "" : " ") + name;
  }
  return text;
}

}  // namespace remat::testing
