#include "remat/plan/peak_tree.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace remat::plan {
namespace {

TEST(PeakTreeTest, HoldsTheGreatestThroughRandomAdditions) {
  for (size_t size = 1; size < 40; ++size) {
    std::vector<int64_t> leaves(size, 3);
    PeakTree tree(leaves);
    std::mt19937 generator(static_cast<uint32_t>(size));
    for (int i = 0; i < 50; ++i) {
      const size_t first = generator() % size;
      const size_t last = first + generator() % (size - first + 1);
      const auto amount = static_cast<int64_t>(generator() % 21) - 10;
      tree.add(first, last, amount);
      for (size_t leaf = first; leaf < last; ++leaf) leaves[leaf] += amount;
      // Leaves beyond the row count as 0: bytes are never negative.
      const auto want = *std::max_element(leaves.begin(), leaves.end());
      if (want >= 0) {
        ASSERT_EQ(tree.peak(), want) << "size " << size << ", addition " << i;
      }
    }
  }
}

}  // namespace
}  // namespace remat::plan
