#include "remat/budget/fitting.h"

#include <algorithm>

#include "remat/plan/planner.h"
#include "remat/plan/simulator.h"

namespace remat::budget {

namespace {

/// What is live at an instant and not counted by planners.
int64_t beside(const StepTrace& step, const plan::Instant& instant) {
  switch (instant.kind) {
    case plan::Instant::Kind::forward:
      return step.workspace[static_cast<size_t>(instant.op)];
    case plan::Instant::Kind::replay:
      return step.workspace[static_cast<size_t>(instant.op)] +
             step.before[static_cast<size_t>(instant.step)];
    case plan::Instant::Kind::backward:
      return 0;
  }
  return 0;
}

}  // namespace

int64_t peak_of(const Guide& step, const plan::Plan& plan) {
  plan::Simulator simulator(*step.trace);
  simulator.run(plan.replay);
  const auto bytes = simulator.profile();
  int64_t peak = 0;
  for (size_t event = 0; event < bytes.size(); ++event)
    peak = std::max(peak, bytes[event] + beside(step.step, simulator.instant(event)));
  return peak;
}

/// Where what planners do not count makes a plan too large, they get so much less; and where that
/// was too little for any plan, the one that needs least may still fit.
Fitting fit(const Guide& step, int64_t budget) {
  constexpr int kTries = 8;
  Fitting found;
  const auto plan_in = [&](int64_t room) {
    auto planned = plan::plan_within(*step.trace, std::max<int64_t>(1, room));
    found.seconds += planned.seconds;
    return planned;
  };
  auto planned = plan_in(budget);
  for (int attempt = 0; attempt < kTries && planned.plan; ++attempt) {
    const int64_t excess = peak_of(step, *planned.plan) - budget;
    found.plan = std::move(planned.plan);
    if (excess <= 0) return found;
    planned = plan_in(found.plan->cost.peak - excess);
  }
  found.plan = plan_in(plan_in(1).least_budget).plan;
  if (!found.plan) return found;
  found.least_bytes = peak_of(step, *found.plan);
  if (found.least_bytes > budget) found.plan.reset();
  return found;
}

}  // namespace remat::budget
