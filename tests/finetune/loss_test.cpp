#include "finetune/loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "finetune/model.h"
#include "remat/remat.h"
#include "tests/support/bytes.h"
#include "tests/support/compare.h"
#include "tests/support/operator_log.h"

namespace remat::finetune {
namespace {

using testing::Bytes;
using testing::constant;
using testing::expect_same_bits;
using testing::leaf;
using testing::OperatorLog;

constexpr int64_t kTokens = 21;
constexpr int64_t kWidth = 8;
constexpr int64_t kWords = 37;

at::Tensor labels() {
  auto labels = at::arange(kTokens).mul(5).remainder(kWords);
  labels.slice(0, 3, 6).fill_(kIgnored);
  return labels;
}

/// What transformers computes: all logits, then the sum of the losses.
at::Tensor plain(const at::Tensor& hidden, const at::Tensor& weight, double scale) {
  const auto logits = at::linear(hidden, weight).to(at::kFloat);
  return at::cross_entropy_loss(logits, labels(), {}, at::Reduction::Sum, kIgnored) * scale;
}

struct Grads {
  at::Tensor loss, hidden, weight;
};

template <typename Loss>
Grads grads(const Loss& loss_of) {
  const auto hidden = leaf({kTokens, kWidth}, 1);
  const auto weight = leaf({kWords, kWidth}, 2);
  const auto loss = loss_of(hidden, weight);
  loss.backward();
  return {loss.detach(), hidden.grad(), weight.grad()};
}

void expect_close(const Grads& actual, const Grads& expected, double tolerance) {
  EXPECT_TRUE(at::allclose(actual.loss, expected.loss, tolerance, tolerance));
  EXPECT_TRUE(at::allclose(actual.hidden, expected.hidden, tolerance, tolerance));
  EXPECT_TRUE(at::allclose(actual.weight, expected.weight, tolerance, tolerance));
}

auto chunked(double scale, int64_t rows) {
  return [=](const at::Tensor& hidden, const at::Tensor& weight) {
    return chunked_cross_entropy(hidden, weight, labels(), scale, rows);
  };
}

TEST(LossTest, EqualsPlainCrossEntropyWhateverTheChunk) {
  const auto expected =
      grads([](const auto& hidden, const auto& weight) { return plain(hidden, weight, 0.25); });
  for (const int64_t rows : {1, 4, 18, 1000}) {
    SCOPED_TRACE(rows);
    expect_close(grads(chunked(0.25, rows)), expected, 1e-5);
  }
}

TEST(LossTest, IsDifferentiatedThroughWhatFollows) {
  const auto doubled = [](const auto& hidden, const auto& weight) {
    return chunked_cross_entropy(hidden, weight, labels(), 1, 4) * 2;
  };
  const auto expected =
      grads([](const auto& hidden, const auto& weight) { return plain(hidden, weight, 2); });
  expect_close(grads(doubled), expected, 1e-5);
}

TEST(LossTest, UnderAutocastRunsTheHeadInBfloat16AndTheSoftmaxInFloat32) {
  const auto under_autocast = [](auto loss_of) {
    return grads([&](const auto& hidden, const auto& weight) {
      const Autocast autocast(true);
      return loss_of(hidden, weight);
    });
  };
  const auto expected = under_autocast(
      [](const auto& hidden, const auto& weight) { return plain(hidden, weight, 0.1); });
  const auto actual = under_autocast(chunked(0.1, 4));
  EXPECT_EQ(actual.hidden.scalar_type(), at::kFloat);
  EXPECT_EQ(actual.weight.scalar_type(), at::kFloat);
  expect_close(actual, expected, 1e-2);
}

TEST(LossTest, InsideARegionHasTheSameBitsAndRunsTheHeadOnce) {
  const auto expected = grads(chunked(1, 4));
  const auto hidden = leaf({kTokens, kWidth}, 1);
  const auto weight = leaf({kWords, kWidth}, 2);
  const auto loss = checkpoint([&] { return chunked(1, 4)(hidden * 1, weight); });
  const OperatorLog log;
  loss.backward();
  EXPECT_EQ(log.count("aten::mm"), 0);
  expect_same_bits(hidden.grad(), expected.hidden, "hidden");
  expect_same_bits(weight.grad(), expected.weight, "weight");
}

TEST(LossTest, HoldsNoMoreThanAChunkOfLogits) {
  constexpr int64_t tokens = 512;
  constexpr int64_t words = 4000;
  const auto hidden = leaf({tokens, kWidth});
  const auto weight = constant({words, kWidth});
  const auto targets = at::zeros({tokens}, at::kLong);
  const Bytes bytes;
  chunked_cross_entropy(hidden, weight, targets, 1, 64).backward();
  const int64_t chunk = 64 * words * 4;
  EXPECT_LT(bytes.peak(), 2 * chunk);  // all logits are 8 chunks
  EXPECT_GE(bytes.peak(), chunk);
}

TEST(LossTest, AFrozenHeadGetsNoGradient) {
  const auto hidden = leaf({kTokens, kWidth});
  const auto weight = constant({kWords, kWidth});
  chunked_cross_entropy(hidden, weight, labels(), 1).backward();
  EXPECT_TRUE(hidden.grad().defined());
  EXPECT_FALSE(weight.grad().defined());
}

TEST(LossTest, ASecondBackwardIsAnError) {
  const auto loss = chunked(1, 4)(leaf({kTokens, kWidth}), leaf({kWords, kWidth}));
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THROW(loss.backward(), c10::Error);
}

}  // namespace
}  // namespace remat::finetune
