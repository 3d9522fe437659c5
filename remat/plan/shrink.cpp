#include "remat/plan/shrink.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>

namespace remat::plan {

namespace {

constexpr int32_t kLookedAt = 24;  ///< of the best remembered toggles, that are asked again
constexpr int64_t kPairWork = 50'000;
constexpr double kUseless = std::numeric_limits<double>::infinity();

class Descent {
 public:
  Descent(KeepTimeline& timeline, const Trace& trace, int64_t budget)
      : timeline_(timeline), budget_(budget) {
    for (ValueId value = 0; value < trace.values(); ++value) {
      if (trace.droppable(value) && trace.bytes(value) > 0) toggles_.push_back({kUseless, value});
    }
  }

  /// Asks every toggle; returns the best, or none when none lowers the peak.
  std::optional<ValueId> ask_all() {
    for (auto& toggle : toggles_) toggle.ratio = ratio(toggle.value);
    return best();
  }

  /// Looks for two toggles that lower the peak together where none does alone: two instants may be
  /// equally full. Makes the better first one of the cheapest pair found before the work ends.
  std::optional<ValueId> ask_pairs(int64_t work_end) {
    std::optional<ValueId> first;
    double lowest = kUseless;
    const Cost start = timeline_.cost();
    for (const auto& toggle : toggles_) {
      if (timeline_.work() > work_end) break;
      timeline_.toggle(toggle.value);
      // One that makes it worse would have to be undone.
      if (timeline_.cost().peak <= start.peak) {
        const double pair = best_second(start, work_end);
        if (pair < lowest) {
          lowest = pair;
          first = toggle.value;
        }
      }
      timeline_.toggle(toggle.value);
    }
    return first;
  }

  /// Asks the best `count` of the toggles as they are remembered.
  std::optional<ValueId> ask_best(int32_t count) {
    const auto end = toggles_.begin() + std::min<ptrdiff_t>(count, std::ssize(toggles_));
    std::partial_sort(toggles_.begin(), end, toggles_.end());
    double lowest = kUseless;
    for (auto toggle = toggles_.begin(); toggle != end; ++toggle) {
      // The rest remember more than this one gives now.
      if (toggle->ratio >= lowest) break;
      toggle->ratio = ratio(toggle->value);
      lowest = std::min(lowest, toggle->ratio);
    }
    return best(end - toggles_.begin());
  }

 private:
  struct Toggle {
    double ratio;  ///< microseconds added for each byte of peak saved, when last asked
    ValueId value;
    bool operator<(const Toggle& other) const {
      return ratio != other.ratio ? ratio < other.ratio : value < other.value;
    }
  };

  [[nodiscard]] double best_second(const Cost& start, int64_t work_end) const {
    double lowest = kUseless;
    for (const auto& toggle : toggles_) {
      if (timeline_.work() > work_end) break;
      lowest = std::min(lowest, ratio(toggle.value, start));
    }
    return lowest;
  }

  [[nodiscard]] double ratio(ValueId value) const { return ratio(value, timeline_.cost()); }

  /// Of what the toggle leads to, against `now`.
  [[nodiscard]] double ratio(ValueId value, const Cost& now) const {
    const Cost then = timeline_.after_toggle(value);
    if (then.peak >= now.peak) return kUseless;
    // Peak saved below the budget is worth nothing.
    return (then.us - now.us) / static_cast<double>(now.peak - std::max(then.peak, budget_));
  }

  std::optional<ValueId> best(ptrdiff_t among = -1) {
    const auto end = among < 0 ? toggles_.end() : toggles_.begin() + among;
    const auto found = std::min_element(toggles_.begin(), end);
    if (found == end || found->ratio == kUseless) return std::nullopt;
    // Toggled, it would only undo itself until the next refresh.
    found->ratio = kUseless;
    return found->value;
  }

  KeepTimeline& timeline_;
  int64_t budget_;
  std::vector<Toggle> toggles_;
};

/// What keeping a dropped value would save, when that was last asked.
struct Gain {
  double us_per_byte;
  ValueId value;
  int32_t round;  ///< how many values had been kept by then
  bool operator<(const Gain& other) const {
    return us_per_byte != other.us_per_byte ? us_per_byte < other.us_per_byte : value > other.value;
  }
};

}  // namespace

bool shrink(KeepTimeline& timeline, const Trace& trace, int64_t budget, ShrinkLimits limits) {
  Descent descent(timeline, trace, budget);
  const int64_t begin = timeline.work();
  int32_t since_refresh = limits.refresh;
  while (timeline.cost().peak > budget) {
    const int64_t work = timeline.work() - begin;
    if (work > limits.work) return false;
    const bool fresh = since_refresh >= limits.refresh || work < limits.fresh_work;
    auto value = fresh ? descent.ask_all() : descent.ask_best(kLookedAt);
    if (!value && fresh) {
      value = descent.ask_pairs(timeline.work() + std::min(limits.work, kPairWork));
      if (!value) return false;
    }
    since_refresh = value && !fresh ? since_refresh + 1 : value ? 0 : limits.refresh;
    if (value) timeline.toggle(*value);
  }
  return true;
}

void fill(KeepTimeline& timeline, const Trace& trace, int64_t budget, int64_t work) {
  const int64_t end = work == INT64_MAX ? INT64_MAX : timeline.work() + work;
  std::priority_queue<Gain> gains;
  int32_t round = 0;
  const auto ask = [&](ValueId value) {
    const Cost then = timeline.after_toggle(value);
    const double saved = timeline.cost().us - then.us;
    if (then.peak > budget || saved <= 1e-9) return;
    gains.push({saved / static_cast<double>(trace.bytes(value) + 1), value, round});
  };
  for (ValueId value = 0; value < trace.values(); ++value) {
    const bool dropped = !timeline.kept(value) && trace.droppable(value);
    if (dropped && timeline.replayed(trace.producer(value))) ask(value);
  }
  while (!gains.empty() && timeline.work() <= end) {
    const Gain gain = gains.top();
    gains.pop();
    if (gain.round != round) {
      ask(gain.value);
      continue;
    }
    timeline.toggle(gain.value);
    ++round;
  }
}

}  // namespace remat::plan
