#include "remat/tape/tape.h"

#include <algorithm>

namespace remat::tape {

Tape::Tape() {
  nodes_.reserve(kFewValues / 2);
  operands_.reserve(2 * kFewValues);
  values_.reserve(kFewValues);
  buffer_bytes_.reserve(kFewValues);
  buffer_writes_.reserve(kFewValues);
}

RegionId Tape::open_region(RegionId parent) {
  parents_.push_back(parent);
  return static_cast<RegionId>(parents_.size() - 1);
}

BufferId Tape::add_buffer(int64_t bytes) {
  buffer_bytes_.push_back(bytes);
  buffer_writes_.push_back(0);
  return static_cast<BufferId>(buffer_bytes_.size() - 1);
}

ValueId Tape::add_source(BufferId buffer) {
  values_.push_back({.buffer = buffer, .version = buffer_writes_[buffer]});
  return static_cast<ValueId>(values_.size() - 1);
}

NodeId Tape::add_node(std::shared_ptr<const Call> call, RegionId region, DrawId draw,
                      std::span<const ValueId> reads, std::span<const BufferId> buffers) {
  const auto id = static_cast<NodeId>(nodes_.size());
  const size_t writes = call->writes.size();
  nodes_.push_back({std::move(call), static_cast<uint32_t>(operands_.size()), region, draw});
  operands_.insert(operands_.end(), reads.begin(), reads.end());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const uint32_t version = i < writes ? ++buffer_writes_[buffers[i]] : 0;
    operands_.push_back(static_cast<ValueId>(values_.size()));
    values_.push_back({.buffer = buffers[i], .producer = id, .version = version});
  }
  return id;
}

SavedId Tape::add_saved(ValueId value, RegionId region, int64_t bytes) {
  saved_.push_back({value, region, bytes, static_cast<NodeId>(nodes_.size())});
  return static_cast<SavedId>(saved_.size() - 1);
}

size_t Tape::operands_of(const Node& node) const {
  return node.call->reads.size() + node.call->writes.size() + node.call->results.size();
}

void Tape::drop_nodes(const std::vector<bool>& needed, std::vector<NodeId>& renumbered) {
  for (Saved& saved : saved_) {
    saved.after =
        static_cast<NodeId>(std::count(needed.begin(), needed.begin() + saved.after, true));
  }
  NodeId next = 0;
  uint32_t next_operand = 0;
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    if (!needed[id]) continue;
    const auto begin = operands_.begin() + nodes_[id].first_operand;
    const size_t count = operands_of(nodes_[id]);
    std::copy_n(begin, count, operands_.begin() + next_operand);
    renumbered[id] = next;
    if (next != id) nodes_[next] = std::move(nodes_[id]);
    nodes_[next++].first_operand = next_operand;
    next_operand += static_cast<uint32_t>(count);
  }
  nodes_.resize(next);
  operands_.resize(next_operand);
}

Tape::Renumbering Tape::drop_values(const std::vector<bool>& needed,
                                    const std::vector<NodeId>& nodes) {
  Renumbering renumbered{std::vector<ValueId>(values_.size(), kNone),
                         std::vector<BufferId>(buffer_bytes_.size(), kNone)};
  ValueId next = 0;
  for (ValueId id = 0; id < values_.size(); ++id) {
    if (!needed[id]) continue;
    Value value = values_[id];
    renumbered.buffers[value.buffer] = 0;  // needed; numbered below
    if (value.producer != kNone) value.producer = nodes[value.producer];
    renumbered.values[id] = next;
    values_[next++] = value;
  }
  values_.resize(next);
  BufferId next_buffer = 0;
  for (BufferId id = 0; id < buffer_bytes_.size(); ++id) {
    if (renumbered.buffers[id] == kNone) continue;
    renumbered.buffers[id] = next_buffer;
    buffer_writes_[next_buffer] = buffer_writes_[id];
    buffer_bytes_[next_buffer++] = buffer_bytes_[id];
  }
  buffer_bytes_.resize(next_buffer);
  buffer_writes_.resize(next_buffer);
  for (Value& value : values_) value.buffer = renumbered.buffers[value.buffer];
  return renumbered;
}

Tape::Renumbering Tape::prune(const std::vector<bool>& needed_nodes,
                              const std::vector<bool>& needed_values) {
  std::vector<NodeId> nodes(nodes_.size(), kNone);
  drop_nodes(needed_nodes, nodes);
  auto renumbered = drop_values(needed_values, nodes);
  const auto renumber = [&](ValueId& value) {
    value = value == kNone ? kNone : renumbered.values[value];
  };
  for (ValueId& value : operands_) renumber(value);
  for (Saved& saved : saved_) renumber(saved.value);
  for (Name& name : names_) renumber(name.value);
  std::erase_if(names_, [](const Name& name) { return name.value == kNone; });
  return renumbered;
}

void Tape::renumber_draws(std::span<const DrawId> draws) {
  for (Node& node : nodes_) {
    if (node.draw != kNone) node.draw = draws[node.draw];
  }
}

std::span<const ValueId> Tape::reads(NodeId id) const {
  const Node& node = nodes_[id];
  return {operands_.data() + node.first_operand, node.call->reads.size()};
}

std::span<const ValueId> Tape::writes(NodeId id) const {
  const Node& node = nodes_[id];
  return {operands_.data() + node.first_operand + node.call->reads.size(),
          node.call->writes.size()};
}

std::span<const ValueId> Tape::results(NodeId id) const {
  const auto written = writes(id);
  return {written.data() + written.size(), nodes_[id].call->results.size()};
}

bool Tape::encloses(RegionId outer, RegionId inner) const {
  while (inner > outer && inner != kNone) inner = parents_[inner];
  return inner == outer;
}

RegionId Tape::common(RegionId a, RegionId b) const {
  while (a != b) (a > b ? a : b) = parents_[a > b ? a : b];
  return a;
}

int64_t Tape::own_bytes() const {
  return static_cast<int64_t>(
      nodes_.capacity() * sizeof(Node) + operands_.capacity() * sizeof(ValueId) +
      values_.capacity() * sizeof(Value) + buffer_bytes_.capacity() * sizeof(int64_t) +
      buffer_writes_.capacity() * sizeof(uint32_t) + parents_.capacity() * sizeof(RegionId) +
      saved_.capacity() * sizeof(Saved) + names_.capacity() * sizeof(Name));
}

}  // namespace remat::tape
