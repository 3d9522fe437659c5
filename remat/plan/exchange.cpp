#include "remat/plan/exchange.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace remat::plan {

namespace {

constexpr double kLeastGain = 1e-6;  ///< microseconds; less is rounding, and could go on for ever
constexpr int kTries = 24;           ///< of the other side of one exchange

class Exchange {
 public:
  Exchange(KeepTimeline& timeline, const Trace& trace, int64_t budget, int64_t work)
      : timeline_(timeline), trace_(trace), budget_(budget), end_(timeline.work() + work) {}

  void run() {
    rank();
    for (bool better = true; better;) {
      better = false;
      // Copies: what is found changes the ranks.
      for (const ValueId value : std::vector<ValueId>(dropped_)) {
        if (!exhausted() && !timeline_.kept(value)) better |= keep_and_drop_others(value);
      }
      for (const ValueId value : std::vector<ValueId>(kept_)) {
        if (!exhausted() && timeline_.kept(value)) better |= drop_and_keep_others(value);
      }
    }
  }

 private:
  [[nodiscard]] bool exhausted() const { return timeline_.work() > end_; }

  /// Sorts kept values by the time that dropping them costs for each byte, least first, and dropped
  /// ones by the time that keeping them saves, most first.
  void rank() {
    std::vector<std::pair<double, ValueId>> kept;
    std::vector<std::pair<double, ValueId>> dropped;
    const double us = timeline_.cost().us;
    for (ValueId value = 0; value < trace_.values(); ++value) {
      if (!trace_.droppable(value) || trace_.bytes(value) == 0) continue;
      if (!timeline_.kept(value) && !timeline_.replayed(trace_.producer(value))) continue;
      const double change = timeline_.after_toggle(value).us - us;
      if (std::abs(change) < kLeastGain) continue;
      const double per_byte = change / static_cast<double>(trace_.bytes(value));
      (timeline_.kept(value) ? kept : dropped).emplace_back(per_byte, value);
    }
    const auto fill = [](std::vector<ValueId>& values, auto& ranked) {
      std::sort(ranked.begin(), ranked.end());
      values.clear();
      for (const auto& [per_byte, value] : ranked) values.push_back(value);
    };
    fill(kept_, kept);
    fill(dropped_, dropped);
  }

  bool keep_and_drop_others(ValueId value) {
    const double before = timeline_.cost().us;
    toggle(value);
    int tries = 0;
    for (const ValueId other : kept_) {
      if (timeline_.cost().peak <= budget_ || tries == kTries) break;
      if (!timeline_.kept(other)) continue;
      const Cost then = timeline_.after_toggle(other);
      ++tries;
      if (then.peak < timeline_.cost().peak && then.us < before - kLeastGain) toggle(other);
    }
    return accept(before);
  }

  bool drop_and_keep_others(ValueId value) {
    const double before = timeline_.cost().us;
    toggle(value);
    int tries = 0;
    for (const ValueId other : dropped_) {
      if (tries == kTries) break;
      if (timeline_.kept(other)) continue;
      const Cost then = timeline_.after_toggle(other);
      ++tries;
      if (then.peak <= budget_ && then.us < timeline_.cost().us - kLeastGain) toggle(other);
    }
    return accept(before);
  }

  void toggle(ValueId value) {
    timeline_.toggle(value);
    toggled_.push_back(value);
  }

  /// Keeps what was toggled if it fits and lowers the time, else takes it back.
  bool accept(double before) {
    const bool better =
        timeline_.cost().peak <= budget_ && timeline_.cost().us < before - kLeastGain;
    for (; !better && !toggled_.empty(); toggled_.pop_back()) timeline_.toggle(toggled_.back());
    toggled_.clear();
    if (better) rank();
    return better;
  }

  KeepTimeline& timeline_;
  const Trace& trace_;
  int64_t budget_;
  int64_t end_;
  std::vector<ValueId> kept_;  ///< see rank
  std::vector<ValueId> dropped_;
  std::vector<ValueId> toggled_;  ///< by the exchange being tried
};

}  // namespace

void exchange(KeepTimeline& timeline, const Trace& trace, int64_t budget, int64_t work) {
  Exchange(timeline, trace, budget, work).run();
}

}  // namespace remat::plan
