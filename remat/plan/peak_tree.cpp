#include "remat/plan/peak_tree.h"

#include <algorithm>
#include <bit>

namespace remat::plan {

PeakTree::PeakTree(std::span<const int64_t> leaves)
    : leaves_(std::bit_ceil(std::max<size_t>(leaves.size(), 2))),
      top_(2 * leaves_),
      added_(2 * leaves_) {
  std::copy(leaves.begin(), leaves.end(), top_.begin() + static_cast<ptrdiff_t>(leaves_));
  for (size_t node = leaves_ - 1; node > 0; --node) {
    top_[node] = std::max(top_[2 * node], top_[2 * node + 1]);
  }
}

void PeakTree::add(size_t first, size_t last, int64_t amount) {
  if (first >= last || amount == 0) return;
  const auto apply = [&](size_t node) {
    top_[node] += amount;
    added_[node] += amount;
  };
  const size_t left = first + leaves_;
  const size_t right = last + leaves_;
  for (size_t l = left, r = right; l < r; l /= 2, r /= 2) {
    if (l % 2 == 1) apply(l++);
    if (r % 2 == 1) apply(--r);
  }
  settle(left);
  settle(right - 1);
}

/// Brings the nodes above one up to date.
void PeakTree::settle(size_t node) {
  for (node /= 2; node > 0; node /= 2) {
    top_[node] = std::max(top_[2 * node], top_[2 * node + 1]) + added_[node];
  }
}

}  // namespace remat::plan
