#include <cmath>
#include <stdexcept>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/bytes.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

at::Tensor layer(const at::Tensor& x) { return x.sin().exp(); }

std::vector<Layer> layers(size_t n) {
  std::vector<Layer> all(n, layer);
  return all;
}

/// How many layers each region gets.
std::vector<size_t> lengths(size_t n, std::optional<size_t> segments = std::nullopt) {
  reset_stats();
  std::vector<size_t> lengths;
  const Layer count = [&](const at::Tensor& x) {
    lengths.resize(static_cast<size_t>(stats().regions));
    ++lengths.back();
    return x;
  };
  checkpoint_sequential(std::vector<Layer>(n, count), constant(), segments);
  return lengths;
}

using Lengths = std::vector<size_t>;

TEST(SequentialTest, GivesTheGradientsOfPlain) {
  expect_replayed_as_plain(
      [](const Tensors& in) { return checkpoint_sequential(layers(10), in[0]); }, {leaf()});
}

TEST(SequentialTest, DefaultsToTheRootRoundedUp) {
  EXPECT_EQ(lengths(16).size(), 4);
  EXPECT_EQ(lengths(10).size(), 4);
  EXPECT_EQ(lengths(1).size(), 1);
}

TEST(SequentialTest, SplitsEvenly) {
  EXPECT_EQ(lengths(6, 3), (Lengths{2, 2, 2}));
  EXPECT_EQ(lengths(10, 4), (Lengths{2, 3, 2, 3}));
}

TEST(SequentialTest, MoreSegmentsThanLayersAreAsManyAsLayers) {
  EXPECT_EQ(lengths(3, 100), (Lengths{1, 1, 1}));
}

TEST(SequentialTest, OneSegmentIsOneRegion) { EXPECT_EQ(lengths(5, 1), (Lengths{5})); }

TEST(SequentialTest, NoLayersOrNoSegmentsIsAnError) {
  EXPECT_THROW(checkpoint_sequential({}, constant()), std::invalid_argument);
  EXPECT_THROW(checkpoint_sequential(layers(2), constant(), 0), std::invalid_argument);
}

TEST(SequentialTest, APolicyIsThatOfEverySegment) {
  const auto x = leaf();
  reset_stats();
  checkpoint_sequential(layers(4), x, 2, {.policy = policy::everything_saveable()})
      .sum()
      .backward();
  EXPECT_EQ(stats().ops_replayed, 0);
}

/// Peak bytes of a training step of n layers, without the input and its gradient.
double peak_of(size_t n) {
  const auto x = leaf({20'000});
  x.mutable_grad() = at::zeros_like(x);
  Bytes bytes;
  checkpoint_sequential(layers(n), x).sum().backward();
  return static_cast<double>(bytes.peak());
}

TEST(SequentialTest, ThePeakGrowsWithTheRoot) {
  // The slope of log peak over log n at 4, 16, 64, 256, by least squares.
  double slope = 0;
  const std::vector<double> weights = {-3, -1, 1, 3};
  for (size_t i = 0; i < 4; ++i) {
    slope += weights[i] * std::log(peak_of(4ULL << (2 * i))) / (20 * std::log(2));
  }
  EXPECT_LE(slope, 0.55);
  EXPECT_GE(slope, 0.3);  // less would not be measuring activations
}

}  // namespace
}  // namespace remat::testing
