#include "remat/plan/priced_cut.h"

#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "tests/plan/build_trace.h"

namespace remat::plan {
namespace {

using testing::random_trace;

struct Prices {
  std::vector<double> cost;
  std::vector<double> price;
};

Prices random_prices(const Trace& trace, uint32_t seed) {
  std::mt19937 generator(seed);
  Prices prices;
  for (OpId op = 0; op < trace.ops(); ++op) prices.cost.push_back(trace.us(op));
  for (ValueId value = 0; value < trace.values(); ++value) {
    prices.price.push_back(static_cast<double>(generator() % 12) / 2);
  }
  return prices;
}

/// The minimum over all sets of operators that run again: what they and backward read, and none of
/// them makes, is kept.
double least_cost(const Trace& trace, const Prices& prices) {
  double least = std::numeric_limits<double>::infinity();
  for (uint32_t runs = 0; runs < 1U << trace.ops(); ++runs) {
    const auto again = [&](OpId op) { return (runs >> op & 1U) != 0; };
    double cost = 0;
    for (OpId op = 0; op < trace.ops(); ++op)
      cost += again(op) ? prices.cost[static_cast<size_t>(op)] : 0;
    for (ValueId value = 0; value < trace.values(); ++value) {
      bool asked = trace.saved(value);
      for (const OpId reader : trace.readers(value)) asked = asked || again(reader);
      const OpId producer = trace.producer(value);
      if (asked && producer != kNone && !again(producer)) {
        cost += prices.price[static_cast<size_t>(value)];
      }
    }
    least = std::min(least, cost);
  }
  return least;
}

TEST(PricedCutTest, IsTheMinimumOverAllChoices) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Trace trace = random_trace(seed, 8);
    const Prices prices = random_prices(trace, seed);
    PricedCut cut(trace);
    cut.solve(prices.cost, prices.price);
    ASSERT_NEAR(cut.objective(), least_cost(trace, prices), 1e-6) << "seed " << seed;
  }
}

TEST(PricedCutTest, TheKeptValuesAreEnoughForTheOperatorsThatRunAgain) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Trace trace = random_trace(seed, 30);
    const Prices prices = random_prices(trace, seed);
    PricedCut cut(trace);
    cut.solve(prices.cost, prices.price);
    const KeepSet keep = cut.keep();
    double cost = 0;
    std::vector<uint8_t> runs(static_cast<size_t>(trace.ops()));
    const Replay replay = replay_of(trace, keep);
    for (StepId step = 0; step < trace.steps(); ++step) {
      for (const OpId op : replay[step]) {
        EXPECT_TRUE(cut.replays(op)) << "seed " << seed;
        cost += trace.us(op);
      }
    }
    for (ValueId value = 0; value < trace.values(); ++value) {
      if (keep[static_cast<size_t>(value)] != 0) cost += prices.price[static_cast<size_t>(value)];
    }
    EXPECT_NEAR(cost, cut.objective(), 1e-6) << "seed " << seed;
  }
}

TEST(PricedCutTest, GoingOnFromTheLastFlowEqualsStartingAfresh) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const Trace trace = random_trace(seed, 30);
    Prices prices = random_prices(trace, seed);
    PricedCut warm(trace);
    warm.solve(prices.cost, prices.price);
    const auto start = warm.state();
    for (int i = 0; i < 5; ++i) {
      for (auto& price : prices.price) price *= 1.5;
      warm.raise(prices.price);
      PricedCut cold(trace);
      cold.solve(prices.cost, prices.price);
      ASSERT_NEAR(warm.objective(), cold.objective(), 1e-6);
      ASSERT_EQ(warm.keep(), cold.keep()) << "seed " << seed;
      if (i == 2) warm.restore(start);
    }
  }
}

TEST(PricedCutTest, ATraceAHundredThousandOperatorsLongDoesNotOverflowTheStack) {
  constexpr int32_t kOps = 100'000;
  const Trace trace = testing::chain(kOps);
  PricedCut cut(trace);
  const std::vector<double> cost(kOps, 1);
  const std::vector<double> price(kOps, 2);
  cut.solve(cost, price);
  EXPECT_NEAR(cut.objective(), kOps, 1e-3);
}

}  // namespace
}  // namespace remat::plan
