// Autograd saves some tensors while the operator that fills or changes them still runs: their
// handles wait for its end, and then mean the value before or after the write.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

TEST(ProvisionalTest, AnOutputIsSavedAsItIsInTheEnd) {
  expect_replayed_as_plain([](const Tensors& in) { return (in[0] * 2).exp(); }, {leaf()});
}

TEST(ProvisionalTest, InPlaceOperatorsThatSaveTheirResult) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto z = in[0] * 2;
        z.relu_();
        auto y = z + 0.5;
        y.sigmoid_();
        auto x = y * 3;
        x.tanh_();
        auto w = x + 1;
        return w.exp_();
      },
      {leaf()});
}

TEST(ProvisionalTest, InPlaceOperatorsThatSaveWhatTheyChange) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto z = in[0] * 2;
        z.pow_(3);
        auto y = z + 1;
        y.sin_();
        return y;
      },
      {leaf()});
}

TEST(ProvisionalTest, AProductWithItsOwnFactorInPlace) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto z = in[0] * 2;
        z.mul_(in[1]);  // saves z as it was
        return z * z;
      },
      {leaf(), leaf({4, 4}, 2)});
}

TEST(ProvisionalTest, ChainsOfThem) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto z = in[0] * 2;
        for (int i = 0; i < 3; ++i) {
          z.mul_(in[1]);
          z.pow_(2);
          z.add_(0.5);
        }
        return z;
      },
      {leaf(), leaf({4, 4}, 2)});
}

TEST(ProvisionalTest, TheCloneOfWhatAnInPlaceOperatorChangesIsRecomputed) {
  const auto x = leaf();
  EXPECT_EQ(saved_by([&] {
              auto z = x * 2;
              z.pow_(3);
            }).find("unknown"),
            std::string::npos);
}

TEST(ProvisionalTest, OnAViewOfTheBuffer) {
  expect_same_as_plain(
      [](const Tensors& in) {
        auto z = in[0] * 2;
        z.narrow(0, 1, 2).mul_(in[1].narrow(0, 0, 2));
        z.t().narrow(0, 1, 2).pow_(2);
        z.select(0, 3).sigmoid_();
        return z;
      },
      {leaf(), leaf({4, 4}, 2)});
}

TEST(ProvisionalTest, AnOperatorThatThrowsAfterItSaved) {
  expect_same_as_plain(
      [](const Tensors& in) {
        auto z = in[0] * 2;
        EXPECT_THROW(at::binary_cross_entropy(z.sigmoid() + 2, in[1]), c10::Error);
        return z.exp();
      },
      {leaf(), constant()});
}

}  // namespace
}  // namespace remat::testing
