#include "finetune/sampler.h"

#include <algorithm>
#include <tuple>

#include <gtest/gtest.h>

namespace remat::finetune {
namespace {

using Rows = Sampler::Rows;

Rows rows_of_epoch(Sampler& sampler, int64_t epoch) {
  Rows all;
  for (int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
    for (const auto& batch : sampler.at(epoch * sampler.steps_per_epoch() + step)) {
      all.insert(all.end(), batch.begin(), batch.end());
    }
  }
  return all;
}

TEST(SamplerTest, WithoutShufflingGoesInOrderAndTheLastBatchIsSmaller) {
  Sampler sampler({.rows = 7, .batch = 2, .accumulation = 2, .shuffle = false, .seed = 1});
  EXPECT_EQ(sampler.steps_per_epoch(), 2);
  EXPECT_EQ(sampler.at(0), (std::vector<Rows>{{0, 1}, {2, 3}}));
  EXPECT_EQ(sampler.at(1), (std::vector<Rows>{{4, 5}, {6}}));
  EXPECT_EQ(sampler.at(2), sampler.at(0));
}

TEST(SamplerTest, AnEpochVisitsEveryRowOnce) {
  Sampler sampler({.rows = 100, .batch = 3, .accumulation = 4, .shuffle = true, .seed = 1});
  auto rows = rows_of_epoch(sampler, 5);
  std::ranges::sort(rows);
  for (int64_t at = 0; at < 100; ++at) EXPECT_EQ(rows[static_cast<size_t>(at)], at);
}

TEST(SamplerTest, EpochsAndSeedsDiffer) {
  Sampler one({.rows = 100, .batch = 1, .accumulation = 1, .shuffle = true, .seed = 1});
  Sampler two({.rows = 100, .batch = 1, .accumulation = 1, .shuffle = true, .seed = 2});
  const auto first = rows_of_epoch(one, 0);
  EXPECT_NE(first, rows_of_epoch(one, 1));
  EXPECT_NE(first, rows_of_epoch(two, 0));
  EXPECT_NE(rows_of_epoch(one, 1), rows_of_epoch(two, 0));
}

TEST(SamplerTest, AStepIsTheSameWhateverCameBefore) {
  const Sampler::Options options{
      .rows = 10, .batch = 3, .accumulation = 1, .shuffle = true, .seed = 9};
  Sampler straight(options);
  for (int64_t step = 0; step < 6; ++step) std::ignore = straight.at(step);
  Sampler jumped(options);
  EXPECT_EQ(straight.at(6), jumped.at(6));
}

}  // namespace
}  // namespace remat::finetune
