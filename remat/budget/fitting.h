#pragma once

#include <cstdint>
#include <optional>

#include "remat/budget/guide.h"
#include "remat/plan/plan.h"

namespace remat::budget {

/// The most that is live at once, bytes, with the workspace of the operator that then runs.
struct Peak {
  int64_t bytes = 0;
  int64_t workspace = 0;
};

/// Of a step that goes by a plan, as planners count it and with what its operators were seen to
/// take beside their arguments and results.
Peak peak_of(const Guide& step, const plan::Plan& plan);

/// The outcome of a search for a plan.
struct Fitting {
  std::optional<plan::Plan> plan;  ///< the cheapest found that fits
  int64_t least_bytes = 0;         ///< where none does: the least budget that has one
  double seconds = 0;
};

/// Plans the step for a budget of bytes, workspaces included.
Fitting fit(const Guide& step, int64_t budget);

}  // namespace remat::budget
