#pragma once

#include <span>
#include <vector>

#include "remat/plan/keep_set.h"
#include "remat/plan/max_flow.h"
#include "remat/plan/trace.h"

namespace remat::plan {

/// The cheapest way to have what backward needs, when running an operator again and keeping a value
/// have their prices:
///
///     minimize   sum of cost[o] over operators that run again + sum of price[v] over kept values
///     such that  what backward reads, and what an operator that runs again reads,
///                is kept or its producer runs again.
///
/// The matrix is totally unimodular: one minimum cut is the optimum over integers and fractions.
class PricedCut {
 public:
  /// `trace` has to outlive the cut. `needed` are the values that backward will read: the saved
  /// ones when empty.
  explicit PricedCut(const Trace& trace, std::span<const ValueId> needed = {});

  /// Solves from scratch. `cost` is one for each operator, `price` one for each value, in
  /// microseconds, not negative.
  void solve(std::span<const double> cost, std::span<const double> price);
  /// Solves again after prices have grown, from the last flow.
  void raise(std::span<const double> price);

  /// The kept values of the last solution.
  [[nodiscard]] KeepSet keep() const;
  /// The minimum of the last solution, microseconds.
  [[nodiscard]] double objective() const;
  [[nodiscard]] bool replays(OpId op) const;

  /// A solution to go on from.
  struct State {
    MaxFlow::State flow;
    std::vector<MaxFlow::Capacity> price;
  };
  [[nodiscard]] State state() const { return {flow_.state(), price_}; }
  void restore(State state);

 private:
  [[nodiscard]] MaxFlow::Node node(ValueId value) const { return trace_.ops() + value; }

  const Trace& trace_;
  MaxFlow flow_;
  std::vector<MaxFlow::Edge> op_edge_;     ///< kNone: no need of backward depends on it
  std::vector<MaxFlow::Edge> value_edge_;  ///< kNone: the same, or nothing makes it
  std::vector<MaxFlow::Capacity> price_;   ///< in use, of every value
  MaxFlow::State empty_;
};

}  // namespace remat::plan
