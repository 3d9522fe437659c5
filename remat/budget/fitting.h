#pragma once

#include <cstdint>
#include <optional>

#include "remat/budget/guide.h"
#include "remat/plan/plan.h"

namespace remat::budget {

/// The most that is live at once, bytes, where the step goes by the plan: what planners count,
/// workspaces of operators, and beside a replay what backward holds of its own.
int64_t peak_of(const Guide& step, const plan::Plan& plan);

/// The outcome of a search for a plan.
struct Fitting {
  std::optional<plan::Plan> plan;  ///< the cheapest found that fits
  int64_t least_bytes = 0;         ///< where none does: the least budget that has one
  double seconds = 0;
};

/// Plans the step so that peak_of() is within the budget, bytes.
Fitting fit(const Guide& step, int64_t budget);

}  // namespace remat::budget
