#include "remat/tape/slice.h"

namespace remat::tape {

// Note [What a replay holds]
// A replay runs the slice of one saved tensor. Others will be asked for soon, and running their
// nodes again would cost time; holding everything would cost the memory that recomputation is there
// to save. The rule:
//  1. Inside the region that asked, and directly in the regions around it, every value that a
//  pending saved tensor
//     is, or that its own slice still has to read, is held: there each node runs at most once.
//  2. Of a sibling region only the boundary is held, the values that cross from another region into
//  it. Its inside
//     is recomputed when its own saved tensors are asked for. With nested regions this gives O(log
//     n) memory.

namespace {

/// Marks the nodes that `wanted` depends on and returns them unordered.
std::vector<NodeId> mark(const Tape& tape, std::span<const ValueId> wanted, const AtHand& at_hand,
                         std::vector<bool>& marked) {
  std::vector<NodeId> found;
  const auto visit = [&](ValueId value) {
    if (value == kNone) return;
    const NodeId producer = tape.value(value).producer;
    if (producer == kNone || marked[producer] || at_hand(value)) return;
    marked[producer] = true;
    found.push_back(producer);
  };
  for (const ValueId value : wanted) visit(value);
  for (size_t next = 0; next < found.size(); ++next) {
    for (const ValueId value : tape.reads(found[next])) visit(value);
  }
  return found;
}

/// Flags the values among `made` that the marked nodes read, where `crosses` admits the pair.
template <typename Admits>
void flag_reads(const Tape& tape, std::span<const NodeId> readers, const Admits& admits,
                std::vector<bool>& flags) {
  for (const NodeId reader : readers) {
    for (const ValueId value : tape.reads(reader)) {
      if (value != kNone && admits(reader, value)) flags[value] = true;
    }
  }
}

}  // namespace

std::vector<NodeId> slice(const Tape& tape, std::span<const ValueId> wanted,
                          const AtHand& at_hand) {
  std::vector<bool> marked(tape.nodes(), false);
  const auto found = mark(tape, wanted, at_hand, marked);
  std::vector<NodeId> ordered;
  ordered.reserve(found.size());
  for (NodeId id = 0; id < tape.nodes() && ordered.size() < found.size(); ++id) {
    if (marked[id]) ordered.push_back(id);
  }
  return ordered;
}

std::vector<bool> held_after(const Tape& tape, std::span<const NodeId> run, RegionId asked,
                             std::span<const SavedId> pending, const AtHand& at_hand) {
  std::vector<bool> runs(tape.nodes(), false);
  for (const NodeId id : run) runs[id] = true;

  std::vector<bool> held(tape.values(), false);
  std::vector<ValueId> near;
  std::vector<ValueId> far;
  for (const SavedId id : pending) {
    const Saved& saved = tape.saved()[id];
    const bool on_path = tape.encloses(saved.region, asked);
    (on_path ? near : far).push_back(saved.value);
    if (on_path) held[saved.value] = true;
  }

  std::vector<bool> marked(tape.nodes(), false);
  const auto near_nodes = mark(tape, near, at_hand, marked);
  flag_reads(
      tape, near_nodes, [&](NodeId reader, ValueId) { return !runs[reader]; }, held);
  if (far.empty()) return held;

  const auto made_in = [&](ValueId value) {
    const NodeId producer = tape.value(value).producer;
    return producer == kNone ? kNone : tape.node(producer).region;
  };
  const auto is_boundary = [&](NodeId reader, ValueId value) {
    const RegionId reads_in = tape.node(reader).region;
    const RegionId made = made_in(value);
    return made != kNone && made != reads_in && !tape.encloses(reads_in, asked) &&
           tape.encloses(tape.common(made, reads_in), asked);
  };
  std::vector<bool> far_marked(tape.nodes(), false);
  const auto far_nodes = mark(tape, far, at_hand, far_marked);
  flag_reads(tape, far_nodes, is_boundary, held);
  // A saved tensor may itself be another region's value: it is then the boundary.
  for (const SavedId id : pending) {
    const Saved& saved = tape.saved()[id];
    const RegionId made = made_in(saved.value);
    if (made != kNone && made != saved.region &&
        tape.encloses(tape.common(made, saved.region), asked)) {
      held[saved.value] = true;
    }
  }
  return held;
}

}  // namespace remat::tape
