#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "remat/plan/keep_set.h"
#include "remat/plan/simulator.h"
#include "remat/plan/trace.h"

namespace remat::plan {

/// What to keep and what to run again in a step, as a value: made by a planner, saved, loaded,
/// compared, and applied by operator index to every later step that is the same.
struct Plan {
  int64_t budget_bytes = 0;
  Cost cost;  ///< as simulated on the trace that it was made for
  Instant peak_at;
  double base_us = 0;  ///< of that trace
  Replay replay;       ///< for each backward step the operators that run again before it, ascending
  /// Values that stay in memory after their last reader in forward.
  std::vector<ValueId> kept;
  /// Whether `replay` is what the keep-set `kept` means (see KeepSet): then a runtime may run on
  /// demand whatever is missing and cache it while it has a use. Otherwise it runs the rows as they
  /// stand, and holds between steps what `held_after` names.
  bool is_keep_set = false;
  uint64_t fingerprint = 0;    ///< of operators, wiring and backward order: see fingerprint_of
  std::vector<int64_t> bytes;  ///< expected of every value

  [[nodiscard]] double recompute_percent() const { return 100 * cost.us / base_us; }
  bool operator==(const Plan&) const;
};

/// Simulates the plan and fills in all that follows from it.
Plan make_plan(const Trace& trace, int64_t budget_bytes, Replay replay);

/// How a running step relates to a plan.
enum class Match : uint8_t {
  same,         ///< apply it
  other_sizes,  ///< the same operators on other sizes: simulate it again before it is applied
  other_step,   ///< plan again
};
Match match(const Plan& plan, const Trace& trace);

/// The plan with its cost on other sizes. Throws std::invalid_argument when the step is another.
Plan resimulated(const Plan& plan, const Trace& trace);

/// Of the operators' hashes in their order and what each backward step reads; sizes do not count.
uint64_t fingerprint_of(const Trace& trace);

/// The keep-set's flags.
KeepSet keep_set_of(const Plan& plan, const Trace& trace);

/// For each backward step the values that its replays made and that stay in memory behind it, until
/// their last use before they are made again.
Lists held_after(const Trace& trace, const Replay& replay);

/// A page of text: figures, then what is kept and what runs again, by name of operator.
std::string to_text(const Plan& plan, const Trace& trace);

/// What `after` keeps, drops, runs again and no longer runs against `before`, by name of operator.
/// Empty when they do the same.
std::string diff(const Plan& before, const Plan& after, const Trace& trace);

}  // namespace remat::plan
