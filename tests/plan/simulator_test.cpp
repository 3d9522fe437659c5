#include "remat/plan/simulator.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include <gtest/gtest.h>

#include "remat/plan/keep_set.h"
#include "tests/plan/build_trace.h"

namespace remat::plan {
namespace {

using testing::BuildTrace;
using testing::chain;
using testing::random_trace;

OpId held_until(const Trace& trace, ValueId value) {
  const auto& held = trace.document().held_until;
  return held.empty() ? kNone : held[static_cast<size_t>(value)];
}

struct Event {
  std::set<ValueId> reads;
  std::set<ValueId> writes;
  int64_t extra;
};

/// Sets of ids and a search ahead for every one of them: slow and obvious.
int64_t naive_peak(const Trace& trace, const Replay& replay) {
  std::vector<Event> events;
  const auto run = [&](OpId op, int64_t extra) {
    const auto reads = trace.reads(op);
    const auto makes = trace.makes(op);
    events.push_back({{reads.begin(), reads.end()}, {makes.begin(), makes.end()}, extra});
  };
  const auto& [base_us, ops, bytes, held, steps] = trace.document();
  for (OpId op = 0; op < trace.ops(); ++op) run(op, ops[static_cast<size_t>(op)].extra_bytes);
  for (StepId step = 0; step < trace.steps(); ++step) {
    const int64_t before = steps[static_cast<size_t>(step)].before_bytes;
    for (const OpId op : replay[step]) run(op, ops[static_cast<size_t>(op)].workspace + before);
    const auto reads = trace.step_reads(step);
    events.push_back({{reads.begin(), reads.end()}, {}, trace.extra(step)});
  }
  const auto read_later = [&](ValueId value, size_t from) {
    for (size_t i = from; i < events.size(); ++i) {
      if (events[i].reads.contains(value)) return true;
      if (events[i].writes.contains(value)) return false;
    }
    return false;
  };
  std::set<ValueId> live;
  for (ValueId value = 0; value < trace.values(); ++value) {
    if (trace.producer(value) == kNone && read_later(value, 0)) live.insert(value);
  }
  int64_t peak = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    live.insert(events[i].writes.begin(), events[i].writes.end());
    int64_t bytes = events[i].extra;
    for (const ValueId value : live) bytes += trace.bytes(value);
    peak = std::max(peak, bytes);
    std::erase_if(live, [&](ValueId value) {
      const bool held = held_until(trace, value) > static_cast<OpId>(i);
      return !held && !read_later(value, i + 1);
    });
  }
  return peak;
}

KeepSet random_keep(const Trace& trace, uint32_t seed) {
  std::mt19937 generator(seed);
  KeepSet keep(static_cast<size_t>(trace.values()));
  for (auto& flag : keep) flag = generator() % 3 == 0;
  return keep;
}

TEST(SimulatorTest, PlainTrainingHoldsEverySavedValue) {
  const Trace trace = chain(4);
  const Cost cost = Simulator(trace).run(replay_of(trace, keep_all(trace)));
  EXPECT_EQ(cost.peak, 40);
  EXPECT_EQ(cost.us, 0);
}

TEST(SimulatorTest, AChainThatKeepsNothingReplaysAllButTheLast) {
  const Trace trace = chain(4);
  Simulator simulator(trace);
  const Cost cost = simulator.run(replay_of(trace, KeepSet(4)));
  EXPECT_EQ(cost.us, 4);
  EXPECT_EQ(cost.peak, 40) << "the replay caches the whole chain";
  EXPECT_EQ(to_text(simulator.peak_instant(), trace),
            "replay of operator 3 (op3) before backward step 0");
}

TEST(SimulatorTest, AValueIsFreedBetweenItsLastReadAndItsReplay) {
  BuildTrace build;
  const auto a = build.op(5, 100);
  const auto b = build.op(7, 10, {a});
  const auto c = build.op(1, 100, {b});
  build.step(2, {c});
  build.step(1, {a});
  const Trace trace = build.trace();
  KeepSet keep = keep_all(trace);
  keep[static_cast<size_t>(a)] = 0;
  const Cost cost = Simulator(trace).run(replay_of(trace, keep));
  EXPECT_EQ(cost.peak, 110) << "never a and c together";
  EXPECT_EQ(cost.us, 5);
}

TEST(SimulatorTest, ExtraBytesCountDuringTheirStepOnly) {
  BuildTrace build;
  const auto a = build.op(1, 10);
  const auto b = build.op(1, 20, {a});
  build.step(1, {b}, 5);
  build.step(0, {a}, 100);
  const Trace trace = build.trace();
  Simulator simulator(trace);
  EXPECT_EQ(simulator.run(replay_of(trace, keep_all(trace))).peak, 110);
  const auto profile = simulator.profile();
  EXPECT_EQ(std::vector<int64_t>(profile.begin(), profile.end()),
            (std::vector<int64_t>{10, 30, 35, 110}));
}

TEST(SimulatorTest, AgreesWithANaiveOneOnRandomSteps) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Trace trace = random_trace(seed, 3 + static_cast<int32_t>(seed % 20));
    const auto replay = replay_of(trace, random_keep(trace, seed));
    ASSERT_EQ(Simulator(trace).run(replay).peak, naive_peak(trace, replay)) << "seed " << seed;
  }
}

TEST(SimulatorTest, AgreesWithANaiveOneWhereOperatorsRunAgainAndAgain) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Trace trace = random_trace(seed, 3 + static_cast<int32_t>(seed % 20));
    Closure closure(trace);
    Replay replay;
    for (StepId step = 0; step < trace.steps(); ++step) {
      replay.add_row(closure(trace.step_reads(step), random_keep(trace, seed + 7)));
      for (const OpId op : replay[step]) ASSERT_LT(op, trace.ops());
    }
    try {
      const int64_t peak = Simulator(trace).run(replay).peak;
      ASSERT_EQ(peak, naive_peak(trace, replay)) << "seed " << seed;
    } catch (const std::invalid_argument&) {
      FAIL() << "forward makes everything, so nothing can be missing";
    }
  }
}

TEST(SimulatorTest, RefusesAPlanOfAnotherTrace) {
  const Trace trace = chain(4);
  Simulator simulator(trace);
  EXPECT_THROW(simulator.run(replay_of(chain(3), KeepSet(3))), std::invalid_argument);
}

TEST(KeepSimulatorTest, EqualsTheSimulationOfThePlanItMeans) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Trace trace = random_trace(seed, 3 + static_cast<int32_t>(seed % 30));
    const KeepSet keep = random_keep(trace, seed);
    KeepSimulator fast(trace);
    fast.run(keep_all(trace));  // a second run must not remember the first
    const Cost got = fast.run(keep);
    const Cost want = Simulator(trace).run(replay_of(trace, keep));
    ASSERT_EQ(got.peak, want.peak) << "seed " << seed;
    ASSERT_NEAR(got.us, want.us, 1e-9) << "seed " << seed;
    const auto profile = fast.profile();
    ASSERT_EQ(*std::max_element(profile.begin(), profile.end()), want.peak) << "seed " << seed;
  }
}

}  // namespace
}  // namespace remat::plan
