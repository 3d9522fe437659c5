// Where nothing is to be differentiated, a region records nothing, keeps nothing and costs nothing.

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "remat/record/recorder.h"
#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

TEST(OffTest, WithoutGradModeNothingIsRecorded) {
  const c10::AutoGradMode no_grad(false);
  reset_stats();
  Region region;
  EXPECT_FALSE(region.is_recording());
  EXPECT_EQ(record::Recorder::current(), nullptr);
  leaf().exp();
  region.close();
  EXPECT_EQ(region.tape().nodes(), 0);
  EXPECT_EQ(stats().regions, 0);
}

TEST(OffTest, InInferenceModeNothingIsRecorded) {
  const c10::InferenceMode inference;
  Region region;
  EXPECT_FALSE(region.is_recording());
  EXPECT_EQ(checkpoint([] { return at::ones({4}).exp(); }).sizes(), at::IntArrayRef({4}));
  EXPECT_EQ(region.tape().nodes(), 0);
}

TEST(OffTest, ACheckpointInsideNoGradInsideARegionIsTransparent) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        at::Tensor factor;
        {
          const c10::AutoGradMode no_grad(false);
          factor = checkpoint([&] { return in[0].sin(); });
        }
        return (in[0] * factor).exp();
      },
      {leaf()});
}

TEST(OffTest, InferenceTensorsMayBeUsedInARegion) {
  expect_same_as_plain(
      [](const Tensors& in) {
        at::Tensor factor;
        {
          const c10::InferenceMode inference;
          factor = at::linspace(0, 1, 4).exp();
        }
        const auto copy = factor.clone();
        return (in[0] * copy + copy).exp();
      },
      {leaf()});
}

TEST(OffTest, AfterItClosedNothingIsRecorded) {
  Region region;
  region.close();
  EXPECT_EQ(record::Recorder::current(), nullptr);
  const auto y = leaf().exp();
  EXPECT_EQ(region.tape().nodes(), 0);
}

}  // namespace
}  // namespace remat::testing
