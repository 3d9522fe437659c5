#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace remat::plan {

/// A row of numbers with range addition and the greatest of all, each in O(log n): a segment tree
/// whose nodes hold what was added to all of their range.
class PeakTree {
 public:
  explicit PeakTree(std::span<const int64_t> leaves);

  /// Adds to the leaves of [first, last).
  void add(size_t first, size_t last, int64_t amount);
  /// The greatest leaf; 0 when there is none.
  [[nodiscard]] int64_t peak() const { return top_[1]; }

 private:
  void settle(size_t node);

  size_t leaves_;             ///< a power of two
  std::vector<int64_t> top_;  ///< the greatest of the node's range, with added_ of the node itself
  std::vector<int64_t> added_;
};

}  // namespace remat::plan
