#include "remat/plan/planner.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include <gtest/gtest.h>

#include "remat/plan/bound.h"
#include "tests/plan/build_trace.h"

namespace remat::plan {
namespace {

using testing::BuildTrace;
using testing::chain;
using testing::random_trace;

/// The least recomputation of all keep-sets that fit; infinite when none does.
double best_keep_set_us(const Trace& trace, int64_t budget) {
  std::vector<ValueId> choices;
  for (ValueId value = 0; value < trace.values(); ++value) {
    if (trace.droppable(value)) choices.push_back(value);
  }
  KeepSimulator simulator(trace);
  double best = std::numeric_limits<double>::infinity();
  for (uint32_t chosen = 0; chosen < 1U << choices.size(); ++chosen) {
    KeepSet keep(static_cast<size_t>(trace.values()));
    for (size_t i = 0; i < choices.size(); ++i) {
      keep[static_cast<size_t>(choices[i])] = chosen >> i & 1U;
    }
    const Cost cost = simulator.run(keep);
    if (cost.peak <= budget) best = std::min(best, cost.us);
  }
  return best;
}

TEST(PlannerTest, KeepsEverythingWhereEverythingFits) {
  const Trace trace = chain(8);
  const auto planned = plan_within(trace, plain_peak(trace));
  ASSERT_TRUE(planned.plan);
  EXPECT_EQ(planned.plan->cost.us, 0);
}

TEST(PlannerTest, FindsTheOptimumOfMostSmallSteps) {
  int solvable = 0;
  int optimal = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Trace trace = random_trace(seed, 10);
    const int64_t budget = plain_peak(trace) * 7 / 10;
    const double best = best_keep_set_us(trace, budget);
    if (best == std::numeric_limits<double>::infinity()) continue;
    ++solvable;
    const auto planned = plan_within(trace, budget);
    ASSERT_TRUE(planned.plan) << "seed " << seed;
    ASSERT_LE(planned.plan->cost.peak, budget) << "seed " << seed;
    if (planned.plan->cost.us <= best + 1e-9) ++optimal;
  }
  EXPECT_GT(solvable, 30);
  EXPECT_GE(optimal, solvable * 19 / 20);
}

TEST(PlannerTest, NoPlanBeatsTheBound) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const Trace trace = random_trace(seed, 10);
    for (const int64_t tenths : {5, 7, 9}) {
      const int64_t budget = plain_peak(trace) * tenths / 10;
      EXPECT_LE(lower_bound_us(trace, budget), best_keep_set_us(trace, budget) + 1e-6)
          << "seed " << seed;
    }
  }
}

TEST(PlannerTest, ALongChainNeedsLittleMemory) {
  // sqrt(n) checkpoints of a chain of n: 2 sqrt(n) values at once for one more forward.
  const Trace trace = chain(100);
  const auto planned = plan_within(trace, 220);
  ASSERT_TRUE(planned.plan);
  EXPECT_LE(planned.plan->cost.us, 100);
}

TEST(PlannerTest, RunsAgainTwiceWhereOnceDoesNotFit) {
  // Seven values at once of a chain of 40: below 2 sqrt(n), no keep-set fits.
  const Trace trace = chain(40);
  EXPECT_FALSE(plan_within(trace, 80, {.keep_sets_only = true}).plan);
  const auto planned = plan_within(trace, 80);
  ASSERT_TRUE(planned.plan);
  EXPECT_FALSE(planned.plan->is_keep_set);
  EXPECT_LE(planned.plan->cost.peak, 80);
}

TEST(PlannerTest, SaysTheLeastBudgetWhenNothingFits) {
  const Trace trace = random_trace(5, 40);
  const auto planned = plan_within(trace, 1);
  EXPECT_FALSE(planned.plan);
  EXPECT_GE(planned.least_budget, planned.forced_bytes);
  EXPECT_TRUE(plan_within(trace, planned.least_budget).plan);
}

TEST(PlannerTest, TheSameQuestionHasTheSameAnswer) {
  const Trace trace = random_trace(9, 60);
  const int64_t budget = plain_peak(trace) * 6 / 10;
  EXPECT_EQ(plan_within(trace, budget).plan, plan_within(trace, budget).plan);
}

TEST(PlannerTest, LeavesOutPassesByName) {
  const Trace trace = chain(30);
  const auto planned = plan_within(trace, 200, {.without = {"cuts", "greedy"}});
  for (const auto& pass : planned.passes) {
    if (pass.name == "cuts" || pass.name == "greedy") {
      EXPECT_FALSE(pass.ran);
    }
  }
  try {
    plan_within(trace, 200, {.without = {"cut"}});
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("cuts"), std::string::npos) << error.what();
  }
}

TEST(PlannerTest, EveryPassAloneFindsAPlan) {
  const Trace trace = chain(60);
  for (const auto name : {"cuts", "evict", "phases"}) {
    PlannerOptions options;
    for (const auto other : pass_names()) {
      if (other != name) options.without.emplace_back(other);
    }
    const auto planned = plan_within(trace, 300, options);
    ASSERT_TRUE(planned.plan) << name;
    EXPECT_LE(planned.plan->cost.peak, 300) << name;
  }
}

TEST(PlannerTest, ExtraBytesOfAStepNarrowTheBudget) {
  BuildTrace build;
  const auto a = build.op(1, 10);
  const auto b = build.op(1, 10, {a});
  const auto c = build.op(1, 10, {b});
  build.step(2, {c}, 10);
  build.step(1, {b});
  build.step(0, {a});
  const Trace trace = build.trace();
  EXPECT_EQ(plain_peak(trace), 40);
  const auto planned = plan_within(trace, 30);
  ASSERT_TRUE(planned.plan);
  EXPECT_EQ(planned.plan->cost.us, 1) << "one value less beside the extra bytes";
}

TEST(PlannerTest, AStepWithoutOperatorsOrWithoutBackwardHasAPlan) {
  EXPECT_TRUE(plan_within(BuildTrace().trace(), 1).plan);
  BuildTrace forward_only;
  forward_only.op(1, 10);
  EXPECT_TRUE(plan_within(forward_only.trace(), 10).plan);
  EXPECT_FALSE(plan_within(forward_only.trace(), 9).plan);
}

}  // namespace
}  // namespace remat::plan
