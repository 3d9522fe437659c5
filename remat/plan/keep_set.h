#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "remat/plan/simulator.h"
#include "remat/plan/trace.h"

namespace remat::plan {

/// One flag a value: it stays in memory after forward, as long as backward or a replay has a use
/// for it. Whatever else backward asks for runs again when it is first asked for, with all it
/// takes, and is then cached while it still has a use: every operator runs again at most once.
using KeepSet = std::vector<uint8_t>;

/// Keeps what autograd saves, as plain training does.
KeepSet keep_all(const Trace& trace);

/// The plan that a keep-set means.
Replay replay_of(const Trace& trace, const KeepSet& keep);

/// Finds what has to run to have values. Keeps its workspace, as it is asked for every step.
class Closure {
 public:
  /// `trace` has to outlive the closure.
  explicit Closure(const Trace& trace);

  /// The operators that have to run for `wanted` when the flagged values are at hand, ascending.
  /// Valid until the next call.
  std::span<const OpId> operator()(std::span<const ValueId> wanted, const KeepSet& at_hand);

 private:
  const Trace& trace_;
  std::vector<OpId> found_;
  std::vector<uint8_t> marked_;
};

/// Simulates keep-sets without writing down their plans: the innermost loop of most passes.
/// Equals Simulator::run(replay_of(keep)), about three times as fast.
class KeepSimulator {
 public:
  /// `trace` has to outlive the simulator.
  explicit KeepSimulator(const Trace& trace);

  Cost run(const KeepSet& keep);
  /// Simulations so far, times operators: the unit in which passes limit their work.
  [[nodiscard]] int64_t work() const { return work_; }

  // ---- Of the last run
  // ---------------------------------------------------------------------------

  /// The step before which the operator runs again, or steps() when it does not.
  [[nodiscard]] StepId replayed_at(OpId op) const { return when_[static_cast<size_t>(op)]; }
  /// The most bytes during each operator of forward, then before and during each backward step.
  [[nodiscard]] std::vector<int64_t> profile() const;

 private:
  void find_replays(const KeepSet& keep);
  void place_events();
  void place_value(ValueId value, bool kept);
  void place_remade(ValueId value, int32_t remade);
  [[nodiscard]] int32_t last_use(ValueId value) const;

  const Trace& trace_;
  std::vector<OpId> relevant_;       ///< ascending
  std::vector<ValueId> moving_;      ///< values whose lives depend on the plan
  std::vector<int64_t> still_;       ///< the others: change of bytes at each forward event
  std::vector<StepId> first_step_;   ///< that wants the value; steps() when none does
  std::vector<StepId> when_;         ///< see replayed_at
  std::vector<int32_t> place_;       ///< event at which an operator runs again
  std::vector<int32_t> step_place_;  ///< event of each backward step
  std::vector<int64_t> change_;      ///< of bytes at each event
  std::vector<int64_t> beside_;      ///< by event: workspaces, what is not ours
  int64_t work_ = 0;
};

}  // namespace remat::plan
