#include <algorithm>
#include <optional>
#include <vector>

#include "remat/plan/byte_cut.h"
#include "remat/plan/passes.h"
#include "remat/plan/phase.h"

namespace remat::plan {

namespace {

size_t at(int32_t id) { return static_cast<size_t>(id); }

/// Times the forced bytes: above, with a plan at hand, phases have gained nothing.
constexpr double kNearNarrow = 1.15;
constexpr size_t kOperators = 20'000;  ///< more sets of boundaries only where they are cheap
/// How much dearer than its bound a phase's own plan may be for its search to end.
constexpr double kInnerGood = 0.01;
constexpr int kTightenings = 4;  ///< of the later phase's budget, when the joined plan is over

/// Behind the last step that alone reads more than half of what is forced: from there on the budget
/// holds much that it could not hold before.
StepId end_of_the_narrow(const Search& search) {
  const Trace& trace = search.trace();
  for (StepId step = trace.steps() - 1; step >= 0; --step) {
    int64_t bytes = trace.extra(step);
    for (const ValueId value : trace.step_reads(step)) bytes += trace.bytes(value);
    if (bytes > search.narrow().bytes / 2) return step + 1;
  }
  return 0;
}

/// Plans whose backward is cut into phases.
class Phases {
 public:
  /// `splits` are the first steps of all phases but the first; `boundaries` are carried for free.
  Phases(Search& search, std::vector<StepId> splits, const std::vector<ValueId>& boundaries)
      : search_(search),
        trace_(search.trace()),
        splits_(std::move(splits)),
        early_(at(trace_.values())),
        free_(search.free()) {
    for (const ValueId value : boundaries) free_[at(value)] = 1;
    for (StepId step = 0; step < splits_.front(); ++step) {
      for (const ValueId value : trace_.step_reads(step)) early_[at(value)] = 1;
    }
  }

  void offer_best() {
    const auto carried = carry();
    if (!carried) return;
    const auto phases = cut(*carried);
    int64_t budget = search_.budget();
    for (int i = 0; i < kTightenings; ++i) {
      Replay plan = first_rows(*carried);
      for (const Phase& phase : phases) {
        const auto own = plan_of(phase, budget);
        if (!own) return;
        append(plan, phase, *own);
      }
      const Cost cost = search_.offer(plan);
      if (cost.peak <= search_.budget()) return;
      budget -= cost.peak - search_.budget();
    }
  }

 private:
  /// What outlives the first phase: the cut that runs least again among those with which the first
  /// phase fits; none when it never does.
  [[nodiscard]] std::optional<KeepSet> carry() {
    ByteCut cut(trace_, late_needs(), free_);
    KeepSet best;
    const bool any = cut.search([&] {
      KeepSet keep = cut.keep();
      if (first_peak(keep) > search_.budget()) return false;
      best = std::move(keep);
      return true;
    });
    if (!any) return std::nullopt;
    return best;
  }

  [[nodiscard]] std::vector<ValueId> late_needs() const {
    std::vector<ValueId> needs;
    for (ValueId value = 0; value < trace_.values(); ++value) {
      if (trace_.saved(value) && trace_.wanted_by(value).back() >= splits_.front()) {
        needs.push_back(value);
      }
    }
    return needs;
  }

  /// The peak of the first phase when these values outlive it.
  [[nodiscard]] int64_t first_peak(const KeepSet& carried) {
    Replay plan = first_rows(carried);
    const Phase rest = phase_of(trace_, splits_.front(), trace_.steps(),
                                {.at_hand = carried, .carried = KeepSet(carried.size())});
    append(plan, rest, replay_of(rest.trace, keep_all(rest.trace)));
    search_.simulator().run(plan);
    const auto profile = search_.simulator().profile();
    auto end = at(trace_.ops() + splits_.front());
    for (StepId step = 0; step < splits_.front(); ++step) end += plan[step].size();
    return *std::max_element(profile.begin(), profile.begin() + static_cast<ptrdiff_t>(end));
  }

  /// The first phase's rows: nothing of what it reads is dropped, most of it is forced anyway.
  [[nodiscard]] Replay first_rows(const KeepSet& carried) const {
    KeepSet keep = carried;
    for (size_t value = 0; value < keep.size(); ++value) keep[value] |= early_[value];
    const Replay all = replay_of(trace_, keep);
    Replay rows;
    for (StepId step = 0; step < splits_.front(); ++step) rows.add_row(all[step]);
    return rows;
  }

  /// The phases behind the first. Built from the last on: each holds what those behind it find.
  [[nodiscard]] std::vector<Phase> cut(const KeepSet& carried) const {
    std::vector<Phase> phases;
    KeepSet later(carried.size());
    StepId end = trace_.steps();
    for (size_t i = splits_.size(); i-- > 0;) {
      const StepId first = splits_[i];
      phases.push_back(phase_of(trace_, first, end, {.at_hand = carried, .carried = later}));
      for (const ValueId value : phases.back().value_of) {
        later[at(value)] |= carried[at(value)];
      }
      end = first;
    }
    std::reverse(phases.begin(), phases.end());
    return phases;
  }

  [[nodiscard]] static std::optional<Replay> plan_of(const Phase& phase, int64_t budget) {
    Search own(phase.trace, budget);
    if (own.offer(keep_all(phase.trace)).peak > budget) {
      evict_pass(own);
      greedy_pass(own);
      if (!own.within_of_bound(kInnerGood)) exchange_pass(own);
    }
    if (!own.cheapest()) return std::nullopt;
    return own.cheapest()->replay;
  }

  Search& search_;
  const Trace& trace_;
  std::vector<StepId> splits_;
  KeepSet early_;  ///< what the first phase's steps read
  std::vector<uint8_t> free_;
};

/// The first steps, from `from` on, of what lies before each of the boundaries.
std::vector<StepId> steps_at(const Trace& trace, StepId from,
                             const std::vector<ValueId>& boundaries) {
  std::vector<StepId> splits = {from};
  for (size_t i = boundaries.size(); i-- > 0;) {
    const ValueId boundary = boundaries[i];
    StepId step = splits.back();
    while (step < trace.steps() && trace.step_op(step) > trace.producer(boundary)) ++step;
    if (step > splits.back() && step < trace.steps()) splits.push_back(step);
  }
  return splits;
}

}  // namespace

void phase_pass(Search& search) {
  const StepId split = end_of_the_narrow(search);
  if (split >= search.trace().steps()) return;
  const auto near = static_cast<int64_t>(kNearNarrow * static_cast<double>(search.narrow().bytes));
  if (search.cheapest() && search.budget() > near) return;
  auto sets = boundary_sets(search.segments());
  const auto affordable = kOperators / static_cast<size_t>(search.trace().ops() + 1);
  sets.resize(std::min(sets.size(), std::max<size_t>(affordable, 1)));
  for (const auto& carried : sets) {
    Phases(search, steps_at(search.trace(), split, carried), carried).offer_best();
    if (!carried.empty()) Phases(search, {split}, carried).offer_best();
  }
}

}  // namespace remat::plan
