#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "remat/plan/bound.h"
#include "remat/plan/keep_set.h"
#include "remat/plan/segments.h"
#include "remat/plan/shrink.h"
#include "remat/plan/simulator.h"
#include "remat/plan/trace.h"

namespace remat::plan {

/// What the passes of one planning share: the problem, and the best plans they have offered.
class Search {
 public:
  /// `trace` has to outlive the search.
  Search(const Trace& trace, int64_t budget);

  [[nodiscard]] const Trace& trace() const { return trace_; }
  [[nodiscard]] int64_t budget() const { return budget_; }
  [[nodiscard]] const Segmentation& segments() const { return segments_; }
  /// Values that are in memory at the peak of plain training whatever the plan: keeping them is
  /// free there. With the global values, which are small and wanted everywhere.
  [[nodiscard]] const std::vector<uint8_t>& free() const { return free_; }
  /// Where no plan has much choice.
  [[nodiscard]] const Forced& narrow() const { return narrow_; }
  /// See lower_bound_us.
  [[nodiscard]] double bound_us();
  /// Whether a plan that fits is known and dearer than the bound by at most this part of it.
  [[nodiscard]] bool within_of_bound(double part);

  /// From near the budget: few toggles, so every one may be asked in every round. 20 ms on a slow
  /// core.
  static constexpr ShrinkLimits kPolish = {.refresh = 20, .fresh_work = 150'000, .work = 250'000};

  // ---- Plans found
  // ---------------------------------------------------------------------------------

  struct Found {
    Replay replay;
    std::optional<KeepSet> keep;  ///< when the plan is what a keep-set means
    Cost cost;
  };

  /// Simulates; remembers the plan if it is the cheapest that fits, or has the lowest peak so far.
  Cost offer(const KeepSet& keep);
  Cost offer(const Replay& replay);
  /// Brings a keep-set into the budget if it can, fills what room is left, and offers it.
  void polish(KeepSet keep, ShrinkLimits limits = kPolish);

  /// Forgets the best of the pass before.
  void begin_pass() { best_of_pass_.reset(); }
  /// The cheapest plan that fits and was offered since.
  [[nodiscard]] const std::optional<Cost>& best_of_pass() const { return best_of_pass_; }

  [[nodiscard]] const std::optional<Found>& cheapest() const { return cheapest_; }
  /// The cheapest keep-set that fits.
  [[nodiscard]] const std::optional<Found>& cheapest_keep_set() const { return cheapest_keep_set_; }
  [[nodiscard]] const std::optional<Found>& lowest() const { return lowest_; }
  /// Simulates without remembering; for what is not a candidate yet.
  KeepSimulator& keeps() { return keep_simulator_; }
  Simulator& simulator() { return simulator_; }

 private:
  bool improves(const Cost& cost, bool is_keep_set);
  void remember(Found found);

  const Trace& trace_;
  int64_t budget_;
  Segmentation segments_;
  Forced narrow_;
  std::vector<uint8_t> free_;
  std::optional<double> bound_us_;  ///< computed when first asked for
  KeepSimulator keep_simulator_;
  Simulator simulator_;
  std::optional<Found> cheapest_;
  std::optional<Found> cheapest_keep_set_;
  std::optional<Found> lowest_;
  std::optional<Cost> best_of_pass_;
};

}  // namespace remat::plan
