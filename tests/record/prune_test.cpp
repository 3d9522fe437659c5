// An open region forgets what nothing can ask for.

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/bytes.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

TEST(PruneTest, ALoopWithoutGradientsDoesNotGrowTheTape) {
  const auto x = constant();
  Region region;
  const c10::AutoGradMode no_grad(false);
  for (int i = 0; i < 10'000; ++i) x.sin().exp();
  EXPECT_LT(region.tape().nodes(), 5000);
}

TEST(PruneTest, ALoopOverNewInputsHoldsFewOfThem) {
  Region region;
  const c10::AutoGradMode no_grad(false);
  for (int i = 0; i < 400; ++i) at::from_blob(constant({1 << 17}).data_ptr(), {4}).sin();
  for (int i = 0; i < 400; ++i) constant({1 << 17}).sin();
  EXPECT_LT(region.held_bytes(), int64_t{96} << 20);
}

TEST(PruneTest, WhatIsStillWantedSurvives) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        const auto first = at::dropout((in[0] * 2).exp(), 0.5, true);
        auto noise = in[1];
        {
          const c10::AutoGradMode no_grad(false);
          for (int i = 0; i < 10'000; ++i) noise = noise.sin();
        }
        return (first * at::dropout(noise + first, 0.5, true)).exp();
      },
      {leaf(), constant()});
}

TEST(PruneTest, AClosedRegionHoldsWhatBackwardMayNeed) {
  const auto x = leaf();
  Region region;
  const auto unused = constant().sin().exp();
  const auto y = (x * 2).exp();
  const auto also_unused = y + 1;
  region.close();
  EXPECT_EQ(ops_of(region.tape()), "aten::mul.Scalar aten::exp");
}

TEST(PruneTest, AClosedRegionThatSavedNothingHoldsNothing) {
  Region region;
  const auto y = constant({1 << 16}).sin();
  region.close();
  EXPECT_EQ(region.tape().nodes(), 0);
  EXPECT_EQ(region.held_bytes(), 0);
}

}  // namespace
}  // namespace remat::testing
