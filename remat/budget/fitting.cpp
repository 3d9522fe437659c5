#include "remat/budget/fitting.h"

#include <algorithm>

#include "remat/plan/planner.h"
#include "remat/plan/simulator.h"

namespace remat::budget {

Peak peak_of(const Guide& step, const plan::Plan& plan) {
  plan::Simulator simulator(*step.trace);
  simulator.run(plan.replay);
  const auto bytes = simulator.profile();
  Peak peak;
  for (size_t event = 0; event < bytes.size(); ++event) {
    const auto instant = simulator.instant(event);
    const bool runs = instant.kind != plan::Instant::Kind::backward;
    const int64_t workspace = runs ? step.step.workspace[static_cast<size_t>(instant.op)] : 0;
    if (bytes[event] + workspace > peak.bytes) peak = {bytes[event] + workspace, workspace};
  }
  return peak;
}

/// Planners know of no workspaces: where one does not fit, they get that much less.
Fitting fit(const Guide& step, int64_t budget) {
  Fitting found;
  for (int64_t room = budget;;) {
    auto planned = plan::plan_within(*step.trace, room);
    found.seconds += planned.seconds;
    const bool last = !planned.plan;
    if (last && planned.least_budget > 0)
      planned.plan = plan::plan_within(*step.trace, planned.least_budget).plan;
    found.least_bytes = planned.least_budget;
    if (!planned.plan) return found;
    const Peak peak = peak_of(step, *planned.plan);
    if (peak.bytes <= budget) found.plan = std::move(planned.plan);
    found.least_bytes = peak.bytes;
    if (last || found.plan) return found;
    room = std::max<int64_t>(1, std::min(room - 1, budget - peak.workspace));
  }
}

}  // namespace remat::budget
