#include "remat/saved/handle.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "remat/remat.h"
#include "tests/support/bytes.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

using torch::autograd::SavedVariable;

constexpr int64_t kLarge = 20'000;

TEST(HandleTest, ALeafThatNeedsNoGradComesBackAsItself) {
  const auto x = constant();
  Region region;
  const SavedVariable saved(x, false);
  region.close();
  EXPECT_TRUE(saved.unpack().is_same(x));
}

TEST(HandleTest, AParameterShowsItsPresentStorage) {
  const auto w = leaf();
  Region region;
  const SavedVariable saved(w, false);
  region.close();
  const auto gathered = constant({4, 4}, 2);
  w.set_data(gathered);
  EXPECT_EQ(saved.unpack().data_ptr(), gathered.data_ptr());
}

TEST(HandleTest, AnIntermediateComesBackWithItsGeometry) {
  const auto x = leaf();
  std::optional<SavedVariable> saved;
  Region region;
  {
    const auto view = (x * 2).detach().t().narrow(0, 1, 2);
    saved.emplace(view, false);
  }
  region.close();
  const auto unpacked = saved->unpack();
  EXPECT_EQ(unpacked.strides(), at::IntArrayRef({1, 4}));
  EXPECT_EQ(unpacked.storage_offset(), 1);
  expect_same_bits(unpacked, (x * 2).t().narrow(0, 1, 2), "the view");
}

TEST(HandleTest, ASavedTensorIsNoLongerHeldByItsStorage) {
  const auto x = leaf({kLarge});
  const Bytes bytes;
  Region region;
  at::Tensor y = (x * 2).sin().exp();
  region.close();
  y.reset();
  EXPECT_EQ(bytes.live(), 0);
}

TEST(HandleTest, KeptTensorsThatChangedRaiseLikePlain) {
  const auto error =
      error_in_backward([](const Tensors& in) { return in[0] * in[1]; }, {leaf(), constant()},
                        [](const Tensors& in) { in[1].add_(1); });
  EXPECT_NE(error.find("one of the variables needed for gradient computation has been modified by "
                       "an inplace operation: "
                       "[CPUFloatType [4, 4]] is at version 1; expected version 0 instead."),
            std::string::npos)
      << error;
}

TEST(HandleTest, WhatAPolicyKeepsRaisesLikePlainToo) {
  const auto x = leaf();
  Region region({.policy = policy::everything_saveable()});
  auto y = x.exp();
  region.close();
  const auto loss = y.sum();
  y.detach().zero_();
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(HandleTest, DroppedWithoutBackwardFreesEverything) {
  const Bytes bytes;
  {
    const auto x = leaf({kLarge});
    auto y = checkpoint(
        [factor = constant({kLarge})](const at::Tensor& x) {
          return at::dropout((x * factor).exp(), 0.5, true).sin();
        },
        x);
    EXPECT_EQ(record::Recording::total_held_bytes(), 4 * kLarge);  // the factor
  }
  EXPECT_EQ(bytes.live(), 0);
  EXPECT_EQ(record::Recording::total_held_bytes(), 0);
}

/// In plain training it does, and only backward frees the graph.
TEST(HandleTest, ASavedTensorThatIsWrittenLaterFormsNoCycle) {
  const auto x = leaf({kLarge});
  const auto w = leaf({kLarge}, 2);
  const Bytes bytes;
  checkpoint([&] {
    auto z = x * 2;
    const auto product = z * w;  // saves z
    z.add_(product);             // whose graph now leads to who saved it
  });
  EXPECT_EQ(bytes.live(), 0);
}

TEST(HandleTest, BackwardFreesEverything) {
  const auto x = leaf({kLarge});
  const Bytes bytes;
  checkpoint([&] { return (x * constant({kLarge})).exp().sin(); }).sum().backward();
  x.mutable_grad().reset();
  EXPECT_EQ(bytes.live(), 0);
  EXPECT_EQ(record::Recording::total_held_bytes(), 0);
}

TEST(HandleTest, DroppedInTheMiddleOfTheRegion) {
  const auto x = leaf();
  Region region;
  for (int i = 0; i < 10; ++i) static_cast<void>((x * 2).exp().sin());
  const auto loss = (x * 2).exp().sum();
  region.close();
  EXPECT_EQ(ops_of(region.tape()), "aten::mul.Scalar aten::exp");
  loss.backward();
  expect_same_bits(x.grad(), (x * 2).exp().detach() * 2, "the gradient");
}

TEST(HandleTest, AGraphMayOutliveItsRegion) {
  const auto x = leaf();
  at::Tensor loss;
  {
    Region region;
    loss = (x * 2).exp().sum();
  }
  loss.backward();
  expect_same_bits(x.grad(), (x * 2).exp().detach() * 2, "the gradient");
}

}  // namespace
}  // namespace remat::testing
