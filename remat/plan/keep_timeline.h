#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "remat/plan/keep_set.h"
#include "remat/plan/peak_tree.h"
#include "remat/plan/trace.h"

namespace remat::plan {

/// A keep-set with its exact peak and recompute time, kept up to date while single values are
/// dropped and taken back. A search asks "what if this one value" thousands of times, and the
/// answer touches few operators: microseconds, whatever the length of the step. See Note [What one
/// value changes].
class KeepTimeline {
 public:
  /// `trace` has to outlive the timeline.
  KeepTimeline(const Trace& trace, KeepSet keep);

  /// Keeps the value if it was dropped, drops it if it was kept.
  void toggle(ValueId value);
  /// What toggling the value would lead to.
  Cost after_toggle(ValueId value);

  [[nodiscard]] Cost cost() const { return {tree_.peak(), us_}; }
  [[nodiscard]] const KeepSet& keep() const { return keep_; }
  [[nodiscard]] bool kept(ValueId value) const { return keep_[static_cast<size_t>(value)] != 0; }
  [[nodiscard]] bool replayed(OpId op) const;
  /// Operators visited so far: the unit in which passes limit their work.
  [[nodiscard]] int64_t work() const { return work_; }

 private:
  /// Position in the order of events: the step, then the operator that runs again before it.
  using Moment = int64_t;
  /// When a value is in memory after its last reader in forward.
  struct Life {
    Moment end = kNever;         ///< last use of what forward made; kNever: none after forward
    Moment remade = kNever;      ///< when a replay makes it again
    Moment remade_end = kNever;  ///< last use of that
    bool operator==(const Life&) const = default;
  };
  static constexpr Moment kNever = -1;

  static size_t index(int32_t id) { return static_cast<size_t>(id); }
  [[nodiscard]] static Moment moment(StepId step, OpId op);
  [[nodiscard]] static StepId step_of(Moment moment);
  [[nodiscard]] Moment moment_of_step(StepId step) const { return moment(step, trace_.ops()); }

  [[nodiscard]] std::vector<int64_t> forward_bytes() const;
  [[nodiscard]] StepId wanted_at(OpId op) const;
  [[nodiscard]] Life life_of(ValueId value) const;
  void move(OpId op, StepId to);
  void settle_operators(OpId first);
  void settle_values();
  void settle_steps();
  void count(const Life& life, ValueId value, int64_t sign);
  [[nodiscard]] int64_t inner_peak(StepId step) const;
  void touch(ValueId value);
  void touch_step(StepId step);

  const Trace& trace_;
  KeepSet keep_;
  double us_ = 0;
  int64_t work_ = 0;
  std::vector<StepId> when_;  ///< step before which an operator runs again, or steps()
  std::vector<std::vector<OpId>> replays_;  ///< of each step, ascending
  std::vector<Life> lives_;
  std::vector<int64_t> inner_;  ///< of each step: its peak above what is there when it begins
  PeakTree tree_;               ///< the operators of forward, then the steps with their replays

  // ---- Being brought up to date by toggle ------------------------------------------------------

  std::priority_queue<OpId> operators_;  ///< latest first: readers settle before producers
  std::vector<uint8_t> queued_;
  std::vector<ValueId> values_;
  std::vector<uint8_t> touched_;
  std::vector<StepId> steps_;
  std::vector<uint8_t> touched_steps_;
};

}  // namespace remat::plan
