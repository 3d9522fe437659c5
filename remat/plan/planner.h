#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "remat/plan/plan.h"
#include "remat/plan/trace.h"

namespace remat::plan {

struct PlannerOptions {
  /// Names of passes to leave out.
  std::vector<std::string> without = {};
  /// Only plans that are keep-sets: no operator runs again more than once.
  bool keep_sets_only = false;
  /// No pass begins later than this, and then a plan depends on how busy the machine is. The passes
  /// limit their own work by counting it.
  double seconds = std::numeric_limits<double>::infinity();
};

struct PassReport {
  std::string_view name;
  bool ran = false;  ///< a pass is left out when a plan near the bound is known already
  double seconds = 0;
  std::optional<Cost> best;  ///< the cheapest of its plans that fits
};

struct Planned {
  std::optional<Plan> plan;  ///< the cheapest that fits; none when nothing fits
  /// When nothing fits, a budget at which the passes find a plan; looked for from the forced bytes
  /// up. Else the budget.
  int64_t least_budget = 0;
  int64_t forced_bytes = 0;  ///< no plan can have a lower peak
  double bound_us = 0;       ///< no plan can recompute less; see lower_bound_us
  double seconds = 0;
  std::vector<PassReport> passes;
};

/// The passes in the order in which they run.
std::vector<std::string_view> pass_names();

/// Runs the passes and returns the cheapest plan whose simulated peak fits the budget. The same
/// trace, budget and options give the same plan. Throws std::invalid_argument when a pass that is
/// to be left out has a name that there is not.
Planned plan_within(const Trace& trace, int64_t budget_bytes, const PlannerOptions& options = {});

/// The peak of plain training: what budgets in percent refer to.
int64_t plain_peak(const Trace& trace);

}  // namespace remat::plan
