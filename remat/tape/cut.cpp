#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "remat/tape/tape.h"

namespace remat::tape {

namespace {

/// The nodes that lie directly in a region, and what a cut before each of them would part.
class Cuts {
 public:
  Cuts(const Tape& tape, RegionId region) : tape_(tape) {
    for (NodeId id = 0; id < tape.nodes(); ++id) {
      if (tape.node(id).region != region) continue;
      nodes_.push_back(id);
      made_before_.push_back(total_);
      const auto& allocated = tape.node(id).call->allocated;
      total_ += std::accumulate(allocated.begin(), allocated.end(), int64_t{0});
    }
    count_crossing();
  }

  /// The first nodes of all segments, ascending.
  [[nodiscard]] std::vector<NodeId> first_nodes(int64_t segments) const {
    std::vector<NodeId> first;
    size_t from = 0;
    for (int64_t segment = 0; segment < segments && from < nodes_.size(); ++segment) {
      const size_t place = segment == 0 ? 0 : best(from, segment, segments);
      if (place == nodes_.size()) continue;
      first.push_back(nodes_[place]);
      from = place + 1;
    }
    return first;
  }

 private:
  /// A replay of one segment holds what crosses into it, and a replay of them all what crosses
  /// anywhere: the fewest bytes within half a segment of where the cut would be even; of equal ones
  /// the nearest. Its place among the nodes from `from` on; their number where none lies there.
  [[nodiscard]] size_t best(size_t from, int64_t segment, int64_t segments) const {
    const auto off = [&](size_t i) {
      return std::abs(made_before_[i] * segments - total_ * segment);
    };
    size_t best = nodes_.size();
    for (size_t i = from; i < nodes_.size(); ++i) {
      if (2 * off(i) > total_) continue;
      const bool better = best == nodes_.size() || crossing_[i] < crossing_[best] ||
                          (crossing_[i] == crossing_[best] && off(i) < off(best));
      if (better) best = i;
    }
    return best;
  }

  /// By place: bytes of values made before the node and read from it on.
  void count_crossing() {
    std::vector<NodeId> last_reader(tape_.values(), kNone);
    for (NodeId id = 0; id < tape_.nodes(); ++id) {
      for (const ValueId value : tape_.reads(id)) {
        if (value != kNone) last_reader[value] = id;
      }
    }
    std::vector<int64_t> change(tape_.nodes() + 1);
    for (ValueId value = 0; value < tape_.values(); ++value) {
      const NodeId producer = tape_.value(value).producer;
      if (producer == kNone || last_reader[value] == kNone) continue;
      const int64_t bytes = tape_.buffer_bytes(tape_.value(value).buffer);
      change[producer + 1] += bytes;
      change[last_reader[value] + 1] -= bytes;
    }
    std::partial_sum(change.begin(), change.end(), change.begin());
    for (const NodeId id : nodes_) crossing_.push_back(change[id]);
  }

  const Tape& tape_;
  std::vector<NodeId> nodes_;
  std::vector<int64_t> made_before_;  ///< bytes, by place
  std::vector<int64_t> crossing_;     ///< bytes, by place
  int64_t total_ = 0;
};

}  // namespace

void Tape::cut(RegionId region, size_t segments) {
  if (nodes_.empty()) return;
  const auto first = Cuts(*this, region).first_nodes(static_cast<int64_t>(segments));
  std::vector<RegionId> segment_of(nodes_.size(), region);
  RegionId segment = open_region(region);
  size_t next = first.empty() ? 0 : 1;
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    if (nodes_[id].region == region) {
      if (next < first.size() && id == first[next]) {
        segment = open_region(region);
        ++next;
      }
      nodes_[id].region = segment;
    }
    segment_of[id] = segment;
  }
  for (Saved& saved : saved_) {
    // It lies with the node that saved it, the last before.
    if (saved.region == region) saved.region = segment_of[saved.after == 0 ? 0 : saved.after - 1];
  }
}

}  // namespace remat::tape
