#include "remat/plan/phase.h"

#include <gtest/gtest.h>

#include "tests/plan/build_trace.h"

namespace remat::plan {
namespace {

using testing::chain;

TEST(PhaseTest, IsTheStepBehindTheValuesAtHand) {
  const Trace trace = chain(6);
  KeepSet at_hand(6);
  at_hand[2] = 1;
  // Steps 0 to 2 want the values 5, 4, 3; value 2 is at hand, so three operators run.
  const Phase phase = phase_of(trace, 0, 3, {at_hand, KeepSet(6)});
  EXPECT_EQ(phase.op_of, (std::vector<OpId>{3, 4, 5}));
  EXPECT_EQ(phase.trace.values(), 4) << "what it makes and what it finds";
  EXPECT_EQ(phase.trace.producer(0), kNone);
}

TEST(PhaseTest, HoldsWhatLaterPhasesFind) {
  const Trace trace = chain(6);
  KeepSet carried(6);
  carried[2] = 1;
  const Phase alone = phase_of(trace, 0, 3, {carried, KeepSet(6)});
  const Phase holding = phase_of(trace, 0, 3, {carried, carried});
  const auto peak = [](const Phase& phase) {
    return Simulator(phase.trace).run(replay_of(phase.trace, keep_all(phase.trace))).peak;
  };
  EXPECT_EQ(peak(alone), 30) << "the value at hand dies at its last reader";
  EXPECT_EQ(peak(holding), 40);
}

TEST(PhaseTest, PhasesTogetherAreAPlanOfTheWhole) {
  const Trace trace = chain(6);
  KeepSet carried(6);
  carried[2] = 1;
  Replay plan;
  for (const auto& [first, end] : {std::pair{0, 3}, std::pair{3, 6}}) {
    const Phase phase = phase_of(trace, first, end, {carried, first == 0 ? carried : KeepSet(6)});
    append(plan, phase, replay_of(phase.trace, keep_all(phase.trace)));
  }
  const Cost cost = Simulator(trace).run(plan);
  EXPECT_EQ(cost.us, 5) << "all but the value that was carried";
  EXPECT_EQ(cost.peak, 40);
}

}  // namespace
}  // namespace remat::plan
