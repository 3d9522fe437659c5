#include "remat/record/spot.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/compare.h"

namespace remat::record {
namespace {

using remat::testing::constant;

TEST(SpotTest, EqualElementsHaveEqualHashes) {
  EXPECT_EQ(spot_hash(constant()), spot_hash(constant()));
}

TEST(SpotTest, SeesEveryElementOfASmallTensor) {
  const auto tensor = constant({64});
  const auto before = spot_hash(tensor);
  for (int64_t i = 0; i < 64; ++i) {
    auto changed = tensor.clone();
    changed[i] += 1;
    EXPECT_NE(spot_hash(changed), before) << i;
  }
}

TEST(SpotTest, SeesFirstAndLastElementOfALargeOne) {
  const auto tensor = constant({1001});
  for (const int64_t i : {0, 1000}) {
    auto changed = tensor.clone();
    changed[i] += 1;
    EXPECT_NE(spot_hash(changed), spot_hash(tensor)) << i;
  }
}

TEST(SpotTest, NeverReadsTheHolesBetween) {
  const auto base = constant();
  const auto column = base.select(1, 0);
  const auto before = spot_hash(column);
  base.select(1, 1).fill_(9);
  EXPECT_EQ(spot_hash(column), before);
}

TEST(SpotTest, IsOfLogicalElementsNotOfStrides) {
  EXPECT_EQ(spot_hash(constant().t()), spot_hash(constant().t().contiguous()));
}

TEST(SpotTest, TellsNumbersOfSixteenBytesApart) {
  const auto tensor =
      at::complex(constant({4}, 1).to(at::kDouble), constant({4}, 2).to(at::kDouble));
  auto changed = tensor.clone();
  at::imag(changed)[3] += 1;
  EXPECT_NE(spot_hash(changed), spot_hash(tensor));
}

TEST(SpotTest, ZeroSaysThereIsNothingToRead) {
  EXPECT_EQ(spot_hash(at::empty({0})), 0);
  EXPECT_NE(spot_hash(at::zeros({1})), 0);
}

}  // namespace
}  // namespace remat::record
