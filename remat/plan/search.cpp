#include "remat/plan/search.h"

#include <algorithm>

#include "remat/plan/keep_timeline.h"

namespace remat::plan {

namespace {

/// Microseconds: sums in another order are no better plans.
constexpr double kRounding = 1e-6;

}  // namespace

Search::Search(const Trace& trace, int64_t budget)
    : trace_(trace),
      budget_(budget),
      segments_(segments_of(trace)),
      narrow_(narrowest(trace)),
      free_(segments_.global),
      keep_simulator_(trace),
      simulator_(trace) {
  const Forced plain = forced_at_plain_peak(trace);
  for (size_t value = 0; value < free_.size(); ++value) free_[value] |= plain.values[value];
}

double Search::bound_us() {
  if (!bound_us_) bound_us_ = lower_bound_us(trace_, budget_);
  return *bound_us_;
}

bool Search::within_of_bound(double part) {
  return cheapest_ && cheapest_->cost.us <= bound_us() * (1 + part) + kRounding;
}

namespace {

bool cheaper(const Cost& cost, const std::optional<Search::Found>& best) {
  return !best || cost.us < best->cost.us - kRounding;
}

}  // namespace

bool Search::improves(const Cost& cost, bool is_keep_set) {
  const bool fits = cost.peak <= budget_;
  if (fits && (!best_of_pass_ || cost.us < best_of_pass_->us)) best_of_pass_ = cost;
  if (!lowest_ || cost.peak < lowest_->cost.peak) return true;
  return fits && (cheaper(cost, cheapest_) || (is_keep_set && cheaper(cost, cheapest_keep_set_)));
}

void Search::remember(Found found) {
  const Cost cost = found.cost;
  if (cost.peak <= budget_ && found.keep && cheaper(cost, cheapest_keep_set_)) {
    cheapest_keep_set_ = found;
  }
  if (cost.peak <= budget_ && cheaper(cost, cheapest_)) cheapest_ = found;
  if (!lowest_ || cost.peak < lowest_->cost.peak) lowest_ = std::move(found);
}

Cost Search::offer(const KeepSet& keep) {
  const Cost cost = keep_simulator_.run(keep);
  if (improves(cost, true)) {
    auto replay = replay_of(trace_, keep);
    // The passes search with faster simulators; what is remembered is what this one says.
    const Cost exact = simulator_.run(replay);
    remember({std::move(replay), keep, exact});
  }
  return cost;
}

Cost Search::offer(const Replay& replay) {
  const Cost cost = simulator_.run(replay);
  if (improves(cost, false)) remember({replay, std::nullopt, cost});
  return cost;
}

void Search::polish(KeepSet keep, ShrinkLimits limits) {
  KeepTimeline timeline(trace_, std::move(keep));
  const bool fits = shrink(timeline, trace_, budget_, limits);
  if (fits) fill(timeline, trace_, budget_, limits.work);
  offer(timeline.keep());
}

}  // namespace remat::plan
