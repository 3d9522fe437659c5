#include "remat/plan/planner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>

#include "remat/plan/passes.h"
#include "remat/plan/search.h"

namespace remat::plan {

namespace {

struct Pass {
  std::string_view name;
  void (*run)(Search&);
  bool makes_keep_sets;
  /// How much dearer than the bound the best plan may be for the pass to be left out.
  double good_enough;
};

/// The cheap and usually best come first; the later ones are for budgets at which those fail.
constexpr Pass kPasses[] = {
    {"plain", plain_pass, true, 0},
    {"cuts", cut_pass, true, 0.001},
    {"greedy", greedy_pass, true, 0.001},
    {"evict", evict_pass, false, 0.005},
    {"time-prices", time_price_pass, true, 0.005},
    {"exchange", exchange_pass, true, 0.005},
    {"phases", phase_pass, false, 0.05},
};

/// Factors on the least conceivable budget when looking for one that fits.
constexpr double kFactors[] = {1.0, 1.001, 1.003, 1.01, 1.03, 1.1, 1.2, 1.4, 1.7, 2, 3, 5, 10};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool is_left_out(const PlannerOptions& options, const Pass& pass) {
  const auto& without = options.without;
  return (options.keep_sets_only && !pass.makes_keep_sets) ||
         std::find(without.begin(), without.end(), pass.name) != without.end();
}

void check(const PlannerOptions& options) {
  const auto names = pass_names();
  for (const auto& name : options.without) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    std::string message = "planner: there is no pass \"" + name + "\"; there are";
    for (const auto known : names) message += " " + std::string(known);
    throw std::invalid_argument(message);
  }
}

std::vector<PassReport> run_passes(Search& search, const PlannerOptions& options) {
  const auto start = Clock::now();
  std::vector<PassReport> reports;
  for (const Pass& pass : kPasses) {
    PassReport& report = reports.emplace_back(PassReport{.name = pass.name, .best = {}});
    if (search.budget() < search.narrow().bytes) continue;  // nothing can fit
    if (is_left_out(options, pass) || search.within_of_bound(pass.good_enough)) continue;
    if (seconds_since(start) > options.seconds) continue;
    const auto pass_start = Clock::now();
    search.begin_pass();
    pass.run(search);
    report.ran = true;
    report.seconds = seconds_since(pass_start);
    report.best = search.best_of_pass();
  }
  return reports;
}

/// The peak of the plan found within the budget, if one is.
std::optional<int64_t> found_peak(const Trace& trace, int64_t budget,
                                  const PlannerOptions& options) {
  Search search(trace, budget);
  run_passes(search, options);
  if (!search.cheapest()) return std::nullopt;
  return search.cheapest()->cost.peak;
}

/// The step with equal times. Measured ones differ from run to run, and with them the least budget
/// at which a plan is found; of this it is always the same, and so are the plans.
Trace timeless(const Trace& trace) {
  TraceDocument document = trace.document();
  for (auto& op : document.ops) op.us = 1;
  return Trace(std::move(document));
}

/// The least budget tried at which the passes find a plan; when they find none, plain training's.
int64_t least_budget(const Search& failed, const PlannerOptions& options) {
  const Trace& trace = failed.trace();
  for (const double factor : kFactors) {
    const auto budget =
        static_cast<int64_t>(std::ceil(static_cast<double>(failed.narrow().bytes) * factor));
    if (budget <= failed.budget()) continue;
    const auto peak = found_peak(trace, budget, options);
    if (!peak) continue;
    // A plan exists within its own peak, but the passes have to find it there.
    return found_peak(trace, *peak, options) ? *peak : budget;
  }
  return plain_peak(trace);
}

/// Offers the plan that is found with equal times. Returns the least budget that has one.
int64_t search_without_times(Search& search, const PlannerOptions& options) {
  const Trace equal = timeless(search.trace());
  Search again(equal, search.budget());
  run_passes(again, options);
  if (!again.cheapest()) return least_budget(again, options);
  search.offer(again.cheapest()->replay);
  return search.budget();
}

}  // namespace

std::vector<std::string_view> pass_names() {
  std::vector<std::string_view> names;
  for (const Pass& pass : kPasses) names.push_back(pass.name);
  return names;
}

Planned plan_within(const Trace& trace, int64_t budget_bytes, const PlannerOptions& options) {
  check(options);
  const auto start = Clock::now();
  Search search(trace, budget_bytes);
  Planned planned;
  planned.passes = run_passes(search, options);
  planned.forced_bytes = search.narrow().bytes;
  planned.bound_us = search.bound_us();
  planned.least_budget = search.cheapest() ? budget_bytes : search_without_times(search, options);
  if (search.cheapest()) planned.plan = make_plan(trace, budget_bytes, search.cheapest()->replay);
  planned.seconds = seconds_since(start);
  return planned;
}

int64_t plain_peak(const Trace& trace) {
  return Simulator(trace).run(replay_of(trace, keep_all(trace))).peak;
}

}  // namespace remat::plan
