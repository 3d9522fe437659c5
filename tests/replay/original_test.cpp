// A tensor that is still alive and unchanged is used as it is; one that changed is made again.

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"
#include "tests/support/operator_log.h"

namespace remat::testing {
namespace {

/// What a region leaves behind.
struct Left {
  at::Tensor x = leaf();
  at::Tensor kept;  ///< a result that backward needs, still alive
  at::Tensor loss;
};

Left run_region() {
  Left left;
  left.loss = checkpoint([&] {
    left.kept = (left.x * 2).exp();
    return left.kept.sum();
  });
  return left;
}

void expect_right_gradient(const Left& left) {
  left.loss.backward();
  expect_same_bits(left.x.grad(), (left.x * 2).exp().detach() * 2, "the gradient");
}

TEST(OriginalTest, IsUsedInsteadOfAReplay) {
  const auto left = run_region();
  reset_stats();
  expect_right_gradient(left);
  EXPECT_EQ(stats().ops_replayed, 0);
}

TEST(OriginalTest, GoneIsReplayed) {
  auto left = run_region();
  left.kept.reset();
  reset_stats();
  expect_right_gradient(left);
  EXPECT_EQ(stats().ops_replayed, 2);
}

TEST(OriginalTest, ModifiedAfterTheRegionIsReplayed) {
  const auto left = run_region();
  left.kept.detach().zero_();
  reset_stats();
  expect_right_gradient(left);
  EXPECT_EQ(stats().ops_replayed, 2);
}

TEST(OriginalTest, ResizedAfterTheRegionIsReplayed) {
  const auto left = run_region();
  left.kept.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()->set_nbytes(0);
  expect_right_gradient(left);
}

TEST(OriginalTest, OfWhichTheStorageWasSwappedIsReplayed) {
  const auto left = run_region();
  left.kept.set_data(at::zeros({4, 4}));
  expect_right_gradient(left);
}

TEST(OriginalTest, AnAncestorThatLivesIsWhereAReplayBegins) {
  const auto x = leaf();
  at::Tensor ancestor;
  const auto loss = checkpoint([&] {
    ancestor = x.exp().sin();
    return ancestor.tanh().exp().sum();
  });
  const OperatorLog log;
  loss.backward();
  EXPECT_EQ(log.count("aten::tanh"), 1);
  EXPECT_EQ(log.count("aten::sin"), 0);
  EXPECT_EQ(log.count("aten::exp"), 2);
}

TEST(OriginalTest, AReplayNeverWritesIt) {
  const auto x = leaf();
  at::Tensor original;
  const auto loss = checkpoint([&] {
    original = x.exp();
    auto copy = original.clone();
    copy.mul_(2);
    return (copy.tanh() + original).sum();
  });
  const auto before = original.detach().clone();
  loss.backward();
  expect_same_bits(original.detach(), before, "the original");
}

TEST(OriginalTest, AReplayNeverWritesASource) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto z = at::cat({in[1], in[1]});
        z.mul_(2);
        z.narrow(0, 0, 4).add_(in[0]);
        return z.exp();
      },
      {leaf(), constant()});
}

TEST(OriginalTest, ASourceThatChangesInTheMiddleOfBackwardIsAnError) {
  const auto x = leaf({20'000});
  const auto source = constant({20'000});
  at::Tensor loss;
  {
    Region region;
    const auto first = (x + source).exp();
    const auto second = (x * 2 + source).exp();
    // Runs when `second` has been recomputed and `first` has not.
    first.register_hook([&](const at::Tensor&) { source.zero_(); });
    loss = first.sum() + second.sum();
  }
  EXPECT_THROW(loss.backward(), c10::Error);
}

}  // namespace
}  // namespace remat::testing
