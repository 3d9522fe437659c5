#include "remat/plan/shrink.h"

#include <gtest/gtest.h>

#include "remat/plan/exchange.h"
#include "tests/plan/build_trace.h"

namespace remat::plan {
namespace {

using testing::BuildTrace;
using testing::random_trace;

/// Values without dependences on each other, all saved: planning them is a knapsack.
Trace knapsack(const std::vector<std::pair<double, int64_t>>& us_and_bytes) {
  BuildTrace build;
  std::vector<ValueId> values;
  for (const auto& [us, bytes] : us_and_bytes) values.push_back(build.op(us, bytes));
  build.step(0, {});
  for (auto value = values.rbegin(); value != values.rend(); ++value) build.step(*value, {*value});
  return build.trace();
}

TEST(ShrinkTest, DropsWhatCostsLeastForItsBytes) {
  const Trace trace = knapsack({{5, 10}, {1, 10}, {9, 10}});
  KeepTimeline timeline(trace, keep_all(trace));
  EXPECT_TRUE(shrink(timeline, trace, 20));
  EXPECT_EQ(timeline.keep(), (KeepSet{1, 0, 1}));
}

TEST(ShrinkTest, SaysWhenNothingLowersThePeak) {
  const Trace trace = knapsack({{5, 10}});
  KeepTimeline timeline(trace, keep_all(trace));
  EXPECT_FALSE(shrink(timeline, trace, 9));
  EXPECT_GT(timeline.cost().peak, 9);
}

TEST(ShrinkTest, StopsWhenItsWorkIsUsedUp) {
  const Trace trace = random_trace(3, 60);
  KeepTimeline timeline(trace, keep_all(trace));
  const int64_t begin = timeline.work();
  EXPECT_FALSE(shrink(timeline, trace, 1, {.work = 100}));
  EXPECT_LT(timeline.work() - begin, 20'000);
}

TEST(FillTest, KeepsWhatSavesMostUntilTheBudgetIsFull) {
  const Trace trace = knapsack({{5, 10}, {1, 10}, {9, 10}});
  KeepTimeline timeline(trace, KeepSet(3));
  fill(timeline, trace, 20);
  EXPECT_LE(timeline.cost().peak, 20);
  EXPECT_TRUE(timeline.kept(2));
  EXPECT_FALSE(timeline.kept(1));
}

TEST(FillTest, NeverLeavesTheBudgetNorCostsTime) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const Trace trace = random_trace(seed, 25);
    KeepTimeline timeline(trace, KeepSet(static_cast<size_t>(trace.values())));
    const Cost before = timeline.cost();
    fill(timeline, trace, before.peak);
    EXPECT_LE(timeline.cost().peak, before.peak) << "seed " << seed;
    EXPECT_LE(timeline.cost().us, before.us) << "seed " << seed;
  }
}

TEST(ExchangeTest, FindsTheOneLargeValueThatIsWorthTwoSmallOnes) {
  // Both small ones leave no room for the large one, which is worth more; beside it one of them
  // fits.
  const Trace trace = knapsack({{14, 10}, {6, 4}, {6, 4}});
  KeepTimeline timeline(trace, KeepSet{0, 1, 1});
  fill(timeline, trace, 14);
  EXPECT_EQ(timeline.cost().us, 14);
  exchange(timeline, trace, 14, 1'000'000);
  EXPECT_EQ(timeline.cost().us, 6);
  EXPECT_LE(timeline.cost().peak, 14);
}

TEST(ExchangeTest, NeverLeavesTheBudgetNorCostsTime) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Trace trace = random_trace(seed, 25);
    KeepTimeline timeline(trace, KeepSet(static_cast<size_t>(trace.values())));
    const Cost before = timeline.cost();
    exchange(timeline, trace, before.peak, 1'000'000);
    EXPECT_LE(timeline.cost().peak, before.peak) << "seed " << seed;
    EXPECT_LE(timeline.cost().us, before.us + 1e-9) << "seed " << seed;
  }
}

}  // namespace
}  // namespace remat::plan
