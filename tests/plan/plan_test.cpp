#include "remat/plan/plan.h"

#include <sstream>
#include <stdexcept>

#include <gtest/gtest.h>

#include "remat/plan/plan_file.h"
#include "tests/plan/build_trace.h"

namespace remat::plan {
namespace {

using testing::BuildTrace;
using testing::chain;

Replay rows(const std::vector<std::vector<OpId>>& lists) {
  Replay replay;
  for (const auto& list : lists) replay.add_row(list);
  return replay;
}

TEST(PlanTest, KnowsWhatItKeepsAndWhetherAKeepSetSaysIt) {
  const Trace trace = chain(4);
  const Plan plan = make_plan(trace, 30, rows({{}, {}, {1}, {}}));
  EXPECT_EQ(plan.kept, (std::vector<ValueId>{0, 2, 3}));
  EXPECT_TRUE(plan.is_keep_set);
  EXPECT_EQ(plan.cost.peak, 30);
  EXPECT_EQ(plan.cost.us, 1);
  EXPECT_DOUBLE_EQ(plan.recompute_percent(), 100.0 / 12);
}

TEST(PlanTest, RunningAnOperatorTwiceIsNoKeepSet) {
  const Trace trace = chain(3);
  EXPECT_FALSE(make_plan(trace, 30, rows({{}, {0, 1}, {0}})).is_keep_set);
}

TEST(PlanTest, MatchesTheSameStepOnly) {
  const Plan plan = make_plan(chain(4), 30, rows({{}, {}, {1}, {}}));
  EXPECT_EQ(match(plan, chain(4)), Match::same);
  EXPECT_EQ(match(plan, chain(4, 1, 20)), Match::other_sizes);
  EXPECT_EQ(match(plan, chain(5)), Match::other_step);
}

TEST(PlanTest, ADifferentOrderOfBackwardIsAnotherStep) {
  BuildTrace build;
  const auto a = build.op(1, 8);
  const auto b = build.op(1, 8);
  build.step(1, {b});
  build.step(0, {a});
  BuildTrace turned = build;
  std::swap(turned.document().steps[0], turned.document().steps[1]);
  EXPECT_NE(fingerprint_of(build.trace()), fingerprint_of(turned.trace()));
}

TEST(PlanTest, IsSimulatedAgainOnOtherSizes) {
  const Plan plan = make_plan(chain(4), 30, rows({{}, {}, {1}, {}}));
  const Plan larger = resimulated(plan, chain(4, 2, 20));
  EXPECT_EQ(larger.cost.peak, 60);
  EXPECT_EQ(larger.cost.us, 2);
  EXPECT_THROW(resimulated(plan, chain(5)), std::invalid_argument);
}

TEST(PlanTest, IsTheSameAfterSavingAndLoading) {
  const Plan plan = make_plan(chain(4), 30, rows({{}, {}, {1}, {}}));
  std::stringstream file;
  write_plan(plan, file);
  EXPECT_EQ(read_plan(file), plan);
  std::istringstream other(R"({"format": "remat-trace-1"})");
  EXPECT_THROW(read_plan(other), std::runtime_error);
}

TEST(PlanTest, HeldAreTheReplayedValuesThatALaterStepReads) {
  const Trace trace = chain(4);
  // Step 1 wants value 2; values 0 and 1 are made on the way, and 1 is held for step 2.
  const Lists held = held_after(trace, rows({{}, {0, 1, 2}, {}, {0}}));
  EXPECT_EQ(held[0].size(), 0U);
  ASSERT_EQ(held[1].size(), 1U);
  EXPECT_EQ(held[1][0], 1);
  EXPECT_EQ(held[2].size(), 0U);
}

TEST(PlanTest, PrintsFiguresAndWhatIsKeptByName) {
  const Trace trace = chain(2);
  const Plan plan = make_plan(trace, 1 << 20, rows({{}, {0}}));
  EXPECT_EQ(to_text(plan, trace),
            "budget     1.0 MiB\n"
            "peak       0.0 MiB, at the forward of operator 1 (op1)\n"
            "recompute  0.001 ms, 16.667 % of the step\n"
            "keep       op1  1  0.0 MiB\n"
            "run again  op0  1  0.001 ms\n");
}

TEST(PlanTest, DiffersByWhatIsKeptAndRun) {
  const Trace trace = chain(2);
  const Plan all = make_plan(trace, 20, rows({{}, {}}));
  const Plan less = make_plan(trace, 20, rows({{}, {0}}));
  EXPECT_EQ(diff(all, all, trace), "");
  EXPECT_EQ(diff(all, less, trace), "keep  op0  1 -> 0\nrun again  op0  0 -> 1\n");
}

}  // namespace
}  // namespace remat::plan
