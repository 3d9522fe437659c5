#pragma once

#include <cstdint>
#include <vector>

#include "remat/plan/simulator.h"
#include "remat/plan/trace.h"

namespace remat::plan {

/// What is in memory at an instant of a step whatever the plan.
struct Forced {
  Instant at;
  int64_t bytes = 0;            ///< extra bytes included
  std::vector<uint8_t> values;  ///< flag a value
};

/// `instant` is of forward or backward.
Forced forced_at(const Trace& trace, const Instant& instant);

/// Where most is forced: no plan has a lower peak.
Forced narrowest(const Trace& trace);

/// What is forced at the peak of plain training, where most plans have theirs.
Forced forced_at_plain_peak(const Trace& trace);

/// Microseconds of recomputation that no plan within the budget can do without, also if it computes
/// values again and again: at the instant everything that backward reads later is in memory
/// or its producer runs again, with what that takes. The Lagrangian of this integer program over
/// the byte price; one minimum cut is exact for each price. Infinite when the forced bytes exceed
/// the budget.
double lower_bound_us(const Trace& trace, const Forced& forced, int64_t budget);

/// The best of the bounds at a few instants that tend to give good ones.
double lower_bound_us(const Trace& trace, int64_t budget);

}  // namespace remat::plan
