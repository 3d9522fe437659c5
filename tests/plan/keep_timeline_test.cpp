#include "remat/plan/keep_timeline.h"

#include <gtest/gtest.h>

#include "tests/plan/build_trace.h"

namespace remat::plan {
namespace {

using testing::chain;
using testing::random_trace;

TEST(KeepTimelineTest, DroppingOneValueReplaysItsProducer) {
  const Trace trace = chain(4);
  KeepTimeline timeline(trace, keep_all(trace));
  timeline.toggle(1);
  EXPECT_EQ(timeline.cost().us, 1);
  EXPECT_EQ(timeline.cost().peak, 30);
}

TEST(KeepTimelineTest, AskingChangesNothing) {
  const Trace trace = chain(6);
  KeepTimeline timeline(trace, keep_all(trace));
  EXPECT_EQ(timeline.after_toggle(2).us, 1);
  EXPECT_EQ(timeline.cost().us, 0);
  EXPECT_EQ(timeline.cost().peak, 60);
  EXPECT_TRUE(timeline.kept(2));
}

TEST(KeepTimelineTest, StaysEqualToTheSimulationThroughRandomToggles) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    const Trace trace = random_trace(seed, 3 + static_cast<int32_t>(seed % 30));
    KeepTimeline timeline(trace, keep_all(trace));
    std::mt19937 generator(seed);
    for (int i = 0; i < 60; ++i) {
      timeline.toggle(static_cast<ValueId>(generator() % static_cast<uint32_t>(trace.values())));
      const Cost want = KeepSimulator(trace).run(timeline.keep());
      ASSERT_EQ(timeline.cost().peak, want.peak) << "seed " << seed << ", toggle " << i;
      ASSERT_NEAR(timeline.cost().us, want.us, 1e-9) << "seed " << seed << ", toggle " << i;
    }
  }
}

}  // namespace
}  // namespace remat::plan
