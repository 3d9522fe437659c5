// What backward holds, in bytes.

#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/bytes.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

constexpr int64_t kElements = 20'000;  // above what is copied as a small source
constexpr int64_t kUnit = 4 * kElements;

/// Two operators of which backward needs one result, a unit; its numbers stay between 0 and 3.
at::Tensor layer(const at::Tensor& x) { return x.sin().exp(); }

at::Tensor layers(at::Tensor x, int n) {
  for (int i = 0; i < n; ++i) x = layer(x);
  return x;
}

/// Layers in regions that halve them, down to one.
at::Tensor halves(at::Tensor x, int n) {
  Region region;
  x = n == 1 ? layer(x) : halves(halves(x, n / 2), n / 2);
  region.close();
  return x;
}

/// The peak of backward of a function of one leaf, in units, and of nothing else.
double units_in_backward(const std::function<at::Tensor(const at::Tensor&)>& forward) {
  const auto x = leaf({kElements});
  Bytes bytes;
  const auto loss = forward(x).sum();
  bytes.reset_peak();
  loss.backward();
  return static_cast<double>(bytes.peak()) / kUnit;
}

/// How the peak grows from n to 4 n: 1 is in proportion to n, 0.5 is its root.
double exponent(double units_at_n, double units_at_4n) {
  return std::log(units_at_4n / units_at_n) / std::log(4);
}

TEST(ReplayMemoryTest, ARegionIsHeldAtOnce) {
  const auto units = units_in_backward(
      [](const at::Tensor& x) { return checkpoint([&] { return layers(x, 32); }); });
  EXPECT_GE(units, 32);
  EXPECT_LE(units, 32 + 4);  // a gradient comes in, one goes out, some are being computed
}

TEST(ReplayMemoryTest, ValuesAreReleasedAsBackwardUsesThem) {
  const auto x = leaf({kElements});
  Bytes bytes;
  std::vector<int64_t> live;
  const auto loss = checkpoint([&] {
    at::Tensor y = x;
    for (int i = 0; i < 16; ++i) {
      y = layer(y);
      y.register_hook([&](const at::Tensor&) { live.push_back(bytes.live() / kUnit); });
    }
    return y.sum();
  });
  loss.backward();
  ASSERT_EQ(live.size(), 16);
  for (size_t i = 2; i < live.size(); ++i)
    EXPECT_LE(live[i], live[i - 1] - 1) << "at layer " << 16 - i;
}

TEST(ReplayMemoryTest, SourcesAreReleasedAsBackwardIsDoneWithThem) {
  constexpr size_t kSources = 16;
  const auto x = leaf({kElements});
  Bytes bytes;
  std::vector<int64_t> live;
  Tensors sources;
  for (size_t i = 0; i < kSources; ++i) sources.push_back(constant({kElements}, 10 + i));
  const auto loss = checkpoint([&] {
    at::Tensor y = x;
    for (const at::Tensor& source : sources) {
      y = layer(y + source);
      y.register_hook([&](const at::Tensor&) { live.push_back(bytes.live() / kUnit); });
    }
    return y.sum();
  });
  sources.clear();
  loss.backward();
  EXPECT_GE(live.front(), kSources);
  EXPECT_LE(live.back(), kSources / 2);
}

TEST(ReplayMemoryTest, ARetainedGraphHoldsNothingAfterwards) {
  const auto x = leaf({kElements});
  const auto loss = checkpoint([&] { return layers(x, 8).sum(); });
  const Bytes bytes;
  loss.backward({}, true);
  EXPECT_LE(bytes.live(), kUnit);  // the gradient of x
}

TEST(ReplayMemoryTest, ALayerOfARegionEachHoldsTheirInputs) {
  const auto x = leaf({kElements});
  const Bytes bytes;
  at::Tensor y = x;
  for (int i = 0; i < 16; ++i) {
    y = checkpoint([&] { return layer(y); });
  }
  EXPECT_LE(bytes.live(), 16 * kUnit);
}

TEST(ReplayMemoryTest, NestedRegionsHoldTheLogarithm) {
  const auto at_64 = units_in_backward([](const at::Tensor& x) { return halves(x, 64); });
  const auto at_256 = units_in_backward([](const at::Tensor& x) { return halves(x, 256); });
  EXPECT_LE(at_64, std::log2(64) + 4);
  EXPECT_LE(at_256 - at_64, 2);  // two levels more
}

TEST(ReplayMemoryTest, NestedRegionsGiveTheGradientsOfPlain) {
  expect_replayed_as_plain([](const Tensors& in) { return halves(in[0], 16); }, {leaf()});
}

TEST(ReplayMemoryTest, AWholeStepIsCutAtTheRoot) {
  const auto x = leaf();
  Region region;
  const auto y = layers(x, 512);  // 1024 operators
  region.close();
  EXPECT_EQ(region.tape().regions(), 1 + 32);
}

TEST(ReplayMemoryTest, ALayerIsNotCut) {
  const auto x = leaf();
  Region region;
  const auto y = layers(x, 256);
  region.close();
  EXPECT_EQ(region.tape().regions(), 1);
}

TEST(ReplayMemoryTest, AWholeStepHoldsTheRoot) {
  const auto units = [](int n) {
    return units_in_backward(
        [&](const at::Tensor& x) { return checkpoint([&] { return layers(x, n); }); });
  };
  EXPECT_LE(exponent(units(512), units(2048)), 0.55);
}

TEST(ReplayMemoryTest, SegmentsAreAsManyAsAskedFor) {
  const auto x = leaf({kElements});
  Region region({.segments = 4});
  auto y = layers(x, 32);
  region.close();
  EXPECT_EQ(region.tape().regions(), 1 + 4);
  const auto loss = y.sum();
  y.reset();
  Bytes bytes;
  loss.backward();
  EXPECT_LE(bytes.peak(), (32 / 4 + 3 + 4) * kUnit);
}

TEST(ReplayMemoryTest, SegmentsGiveTheGradientsOfPlain) {
  expect_replayed_as_plain(
      [](const Tensors& in) { return layers(at::dropout(in[0] * 2, 0.5, true), 9); }, {leaf()},
      [](const Tensors&) {}, {.segments = 4});
}

TEST(ReplayMemoryTest, SmallInputsOfLargeStoragesDoNotHoldReplays) {
  const auto x = leaf({kElements});
  const Bytes bytes;
  {
    const auto loss = checkpoint([&] { return layers(x, 4).narrow(0, 0, 4).exp().sum(); });
    EXPECT_LE(bytes.live(), kUnit / 8);
    loss.backward();
  }
  x.mutable_grad().reset();
  EXPECT_EQ(bytes.live(), 0);
}

}  // namespace
}  // namespace remat::testing
