#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "remat/tape/call.h"
#include "remat/tape/ids.h"

namespace remat::tape {

/// One executed operator. Its operands lie in the tape: reads, then the values its writes make,
/// then results.
struct Node {
  std::shared_ptr<const Call> call;
  uint32_t first_operand = 0;
  RegionId region = kOutermost;
  DrawId draw = kNone;  ///< state of the generator before the call; kNone: draws nothing
};

/// The content of a buffer between two writes. Views are geometry on a value, never values of their
/// own.
struct Value {
  BufferId buffer = kNone;
  NodeId producer =
      kNone;             ///< kNone: made outside the tape or by something the recorder did not see
  uint32_t version = 0;  ///< number of recorded writes to the buffer before it
  bool defined = true;   ///< false: some bytes were never written by a recorded operator
};

/// One saved tensor of autograd that is recomputed when it is asked for.
struct Saved {
  ValueId value = kNone;
  RegionId region = kOutermost;
  int64_t bytes = 0;
  NodeId after = 0;  ///< number of nodes recorded before it was saved
};

/// A value that the user gave a name; it may have several.
struct Name {
  ValueId value = kNone;
  std::string text;
};

/// The record of one outermost region, append only while the region is open.
///
/// Invariants:
///  1. A node's reads are values that existed before it: producers precede consumers in node order.
///  2. Every value has at most one producer, and a value that a write made has the same buffer as
///  the value it
///     replaced.
///  3. A region's parent has a smaller id than the region.
class Tape {
 public:
  /// Values of a region of a few operators. Containers have room for that many from the start: in
  /// such a region growing one by one would be a part of the cost.
  static constexpr size_t kFewValues = 8;

  Tape();

  /// Opens a region inside `parent`. The outermost region is there from the start.
  RegionId open_region(RegionId parent);
  BufferId add_buffer(int64_t bytes);
  /// A value that no node made: what the region was given, or what the recorder cannot explain.
  ValueId add_source(BufferId buffer);
  /// Appends a node. `reads` has one value for each of `call->reads`; kNone stands for an argument
  /// whose content does not matter (overwritten, or scratch). Values for writes and results are
  /// made here, in `buffers` given in the order writes, results.
  NodeId add_node(std::shared_ptr<const Call> call, RegionId region, DrawId draw,
                  std::span<const ValueId> reads, std::span<const BufferId> buffers);
  SavedId add_saved(ValueId value, RegionId region, int64_t bytes);
  /// Cuts what lies directly in `region` into at most `segments` regions inside it, of about equal
  /// bytes made: each cut where the fewest bytes cross it, within half a segment.
  void cut(RegionId region, size_t segments);
  /// From here on the value comes from outside: no node makes it.
  void make_source(ValueId value) { values_[value].producer = kNone; }
  void set_undefined(ValueId value) { values_[value].defined = false; }
  void add_name(ValueId value, std::string text) { names_.push_back({value, std::move(text)}); }

  /// What an id became; kNone: dropped.
  struct Renumbering {
    std::vector<ValueId> values;
    std::vector<BufferId> buffers;
  };
  /// Drops the nodes and values that are not needed, and buffers without a needed value. REQUIRES:
  /// the operands of needed nodes are needed. Ids of regions and saved tensors stay; those of
  /// nodes, values and buffers change.
  Renumbering prune(const std::vector<bool>& needed_nodes, const std::vector<bool>& needed_values);

  void renumber_draws(std::span<const DrawId> draws);

  [[nodiscard]] size_t nodes() const { return nodes_.size(); }
  [[nodiscard]] size_t values() const { return values_.size(); }
  [[nodiscard]] size_t buffers() const { return buffer_bytes_.size(); }
  [[nodiscard]] size_t regions() const { return parents_.size(); }
  [[nodiscard]] const std::vector<Saved>& saved() const { return saved_; }
  [[nodiscard]] const std::vector<Name>& names() const { return names_; }

  [[nodiscard]] const Node& node(NodeId id) const { return nodes_[id]; }
  [[nodiscard]] const Value& value(ValueId id) const { return values_[id]; }
  [[nodiscard]] int64_t buffer_bytes(BufferId id) const { return buffer_bytes_[id]; }
  [[nodiscard]] RegionId parent(RegionId id) const { return parents_[id]; }

  [[nodiscard]] std::span<const ValueId> reads(NodeId id) const;
  [[nodiscard]] std::span<const ValueId> writes(NodeId id) const;
  [[nodiscard]] std::span<const ValueId> results(NodeId id) const;

  /// True iff `inner` is `outer` or lies in it.
  [[nodiscard]] bool encloses(RegionId outer, RegionId inner) const;
  /// The smallest region that holds both.
  [[nodiscard]] RegionId common(RegionId a, RegionId b) const;

  /// Bytes that the tape itself takes; calls are shared between tapes and not counted.
  [[nodiscard]] int64_t own_bytes() const;

 private:
  [[nodiscard]] size_t operands_of(const Node& node) const;
  void drop_nodes(const std::vector<bool>& needed, std::vector<NodeId>& renumbered);
  Renumbering drop_values(const std::vector<bool>& needed, const std::vector<NodeId>& nodes);

  std::vector<Node> nodes_;
  std::vector<ValueId> operands_;
  std::vector<Value> values_;
  std::vector<int64_t> buffer_bytes_;
  std::vector<uint32_t> buffer_writes_;  ///< recorded so far
  std::vector<RegionId> parents_ = {kNone};
  std::vector<Saved> saved_;
  std::vector<Name> names_;  ///< in the order of giving
};

}  // namespace remat::tape
