#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "remat/plan/byte_cut.h"
#include "remat/plan/passes.h"
#include "remat/plan/priced_cut.h"

namespace remat::plan {

namespace {

size_t at(int32_t id) { return static_cast<size_t>(id); }

constexpr int kHalvings = 9;  ///< of the single price to start from
constexpr int kRounds = 40;
constexpr double kStep = 8;            ///< of the first round, in the exponent
constexpr double kLargestMiss = 0.15;  ///< of the budget, that one round answers to
constexpr double kAwake = -0.02;       ///< instants further below the budget get no price
constexpr double kNear = 1.1;          ///< times the budget, of a plan worth repairing
constexpr size_t kPolishedFits = 2;
constexpr size_t kPolishedNear = 3;

struct Candidate {
  KeepSet keep;
  Cost cost;
};

/// Prices of the step's instants, forward operators and then backward steps, and the cuts they
/// mean.
class TimePrices {
 public:
  TimePrices(Search& search, const std::vector<ValueId>& kept_for_free)
      : search_(search),
        trace_(search.trace()),
        cut_(trace_),
        free_(search.segments().global),
        start_keep_(keep_all(trace_)) {
    for (const ValueId value : kept_for_free) free_[at(value)] = start_keep_[at(value)] = 1;
    find_spans();
    start_prices();
  }

  std::vector<Candidate> search() {
    std::vector<Candidate> candidates;
    for (int round = 0; round < kRounds; ++round) {
      solve(prices_);
      candidates.push_back({cut_.keep(), {}});
      candidates.back().cost = search_.offer(candidates.back().keep);
      adapt(kStep / (1 + round / 10.0));
    }
    return candidates;
  }

 private:
  [[nodiscard]] size_t instants() const { return at(trace_.ops() + trace_.steps()); }

  /// The first step that wants what an operator makes, and the last use of every value in backward.
  void find_spans() {
    first_use_.assign(at(trace_.ops()), trace_.steps());
    last_use_.assign(at(trace_.values()), -1);
    for (OpId op = trace_.ops() - 1; op >= 0; --op) {
      StepId direct = trace_.steps();
      StepId through = trace_.steps();
      for (const ValueId value : trace_.makes(op)) {
        if (trace_.saved(value)) {
          direct = std::min(direct, trace_.wanted_by(value).front());
          last_use_[at(value)] = trace_.ops() + trace_.wanted_by(value).back();
        }
        for (const OpId reader : trace_.readers(value)) {
          if (first_use_[at(reader)] == trace_.steps()) continue;
          through = std::min(through, first_use_[at(reader)]);
          last_use_[at(value)] =
              std::max(last_use_[at(value)], trace_.ops() + first_use_[at(reader)]);
        }
      }
      if (trace_.relevant(op)) first_use_[at(op)] = direct < trace_.steps() ? direct : through;
    }
  }

  /// One price at the peak of keep-all, as low as the budget allows.
  void start_prices() {
    search_.keeps().run(start_keep_);
    const auto profile = search_.keeps().profile();
    const auto peak = *std::max_element(profile.begin(), profile.end());
    std::vector<double> shape(profile.size());
    std::transform(profile.begin(), profile.end(), shape.begin(),
                   [&](int64_t bytes) { return bytes >= peak - peak / 1000 ? 1.0 : 0.0; });
    const double total = std::accumulate(shape.begin(), shape.end(), 0.0);
    const auto at_price = [&](double us_per_byte) {
      auto prices = shape;
      for (double& price : prices) price *= us_per_byte / total;
      return prices;
    };
    double low = typical_us_per_byte(trace_) / 64;
    double high = typical_us_per_byte(trace_) * 256;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = std::sqrt(low * high);
      solve(at_price(middle));
      (search_.offer(cut_.keep()).peak > search_.budget() ? low : high) = middle;
    }
    prices_ = at_price(high);
    floor_ = high * 1e-4;
  }

  void solve(const std::vector<double>& prices) {
    std::vector<double> sum(instants() + 1);
    std::partial_sum(prices.begin(), prices.end(), sum.begin() + 1);
    std::vector<double> keep(at(trace_.values()));
    std::vector<double> cost(at(trace_.ops()));
    for (OpId op = 0; op < trace_.ops(); ++op) {
      cost[at(op)] = trace_.us(op);
      const auto replayed = at(trace_.ops() + std::min(first_use_[at(op)], trace_.steps() - 1));
      for (const ValueId value : trace_.makes(op)) {
        const auto bytes = static_cast<double>(trace_.bytes(value));
        const double end = sum[at(last_use_[at(value)] + 1)];
        cost[at(op)] += bytes * std::max(0.0, end - sum[replayed]);
        if (free_[at(value)] != 0) continue;
        keep[at(value)] = bytes * std::max(0.0, end - sum[at(trace_.last_forward(value)) + 1]);
      }
    }
    cut_.solve(cost, keep);
  }

  /// Raises prices where the last candidate is over the budget, lowers them where it is under.
  void adapt(double step) {
    const auto profile = search_.keeps().profile();
    const auto budget = static_cast<double>(search_.budget());
    for (size_t instant = 0; instant < profile.size(); ++instant) {
      double& price = prices_[instant];
      const double miss = (static_cast<double>(profile[instant]) - budget) / budget;
      if (price <= 0 && miss <= kAwake) continue;
      if (miss > 0) price = std::max(price, floor_ * 10);
      price *= std::exp(step * std::clamp(miss, -kLargestMiss, kLargestMiss));
      if (price < floor_ / 100) price = 0;
    }
  }

  Search& search_;
  const Trace& trace_;
  PricedCut cut_;
  std::vector<uint8_t> free_;
  KeepSet start_keep_;
  std::vector<StepId> first_use_;  ///< of an operator's results; steps() when there is none
  std::vector<int32_t> last_use_;  ///< of a value, as an instant; -1 when there is none
  std::vector<double> prices_;
  double floor_ = 0;  ///< far below the prices that matter
};

void polish_best(Search& search, std::vector<Candidate> candidates) {
  const auto budget = search.budget();
  const auto over = [&](const Candidate& c) {
    return static_cast<double>(c.cost.peak) / static_cast<double>(budget) - 1;
  };
  // A plan over the budget will cost more once it fits.
  const auto rank = [&](const Candidate& c) {
    return c.cost.us * (1 + 3 * std::max(0.0, over(c)));
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  size_t fits = 0;
  size_t near = 0;
  for (Candidate& candidate : candidates) {
    const bool within = candidate.cost.peak <= budget;
    if (!within && over(candidate) > kNear - 1) continue;
    if (within ? fits++ < kPolishedFits : near++ < kPolishedNear) {
      search.polish(std::move(candidate.keep));
    }
  }
}

}  // namespace

void time_price_pass(Search& search) {
  if (search.trace().steps() == 0) return;
  std::vector<Candidate> all;
  for (const auto& kept_for_free : {std::vector<ValueId>{}, boundaries(search.segments().layers),
                                    boundaries(search.segments().fine)}) {
    for (auto& candidate : TimePrices(search, kept_for_free).search()) {
      all.push_back(std::move(candidate));
    }
  }
  polish_best(search, std::move(all));
}

}  // namespace remat::plan
