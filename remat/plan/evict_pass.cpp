#include <algorithm>
#include <cmath>
#include <optional>
#include <queue>
#include <span>
#include <vector>

#include "remat/plan/passes.h"

namespace remat::plan {

namespace {

size_t at(int32_t id) { return static_cast<size_t>(id); }

/// Operators looked at for what a value would cost to have again; more would only make it dearer.
constexpr size_t kLookBack = 512;
/// Operators run, times those of the trace, before the pass gives up: evicting in circles.
constexpr int32_t kMostRuns = 30;

/// Plays the step within the budget and writes down what it has to run again. Holds saved values
/// while there is room; makes room by evicting.
class Eviction {
 public:
  /// `impatience`: the power of the wait in the score.
  Eviction(const Trace& trace, int64_t budget, double impatience)
      : trace_(trace),
        budget_(budget),
        impatience_(impatience),
        closure_(trace),
        resident_(at(trace.values())),
        locks_(at(trace.values())),
        uses_left_(at(trace.values())),
        seen_in_(at(trace.ops())) {
    for (ValueId value = 0; value < trace.values(); ++value) {
      uses_left_[at(value)] = static_cast<int32_t>(trace.wanted_by(value).size());
      if (trace.producer(value) == kNone) {
        lock(value);  // cannot be had again
        hold(value);
      }
    }
  }

  /// Empty when it evicts in circles.
  std::optional<Replay> play() {
    for (OpId op = 0; op < trace_.ops(); ++op) {
      for (const ValueId value : trace_.makes(op)) {
        // Forward is not played twice: what it still reads stays.
        if (trace_.last_forward(value) > op) lock(value);
      }
      run(op, trace_.extra_in_forward(op));
      for (const ValueId value : trace_.reads(op)) {
        if (trace_.last_forward(value) == op && trace_.producer(value) != kNone) unlock(value);
      }
    }
    Replay replay;
    for (StepId step = 0; step < trace_.steps(); ++step) {
      step_ = step;
      const auto ops = closure_(trace_.step_reads(step), resident_);
      runs_ += static_cast<int32_t>(ops.size());
      if (runs_ > kMostRuns * trace_.ops()) return std::nullopt;
      replay.add_row(ops);
      play(ops, step);
    }
    return replay;
  }

 private:
  void play(std::span<const OpId> ops, StepId step) {
    // Everything that the row reads stays until its last reader there.
    for (const ValueId value : trace_.step_reads(step)) lock(value);
    for (const OpId op : ops) {
      for (const ValueId value : trace_.reads(op)) lock(value);
    }
    for (const OpId op : ops) {
      run(op, trace_.extra_in_replay(op, step));
      for (const ValueId value : trace_.reads(op)) unlock(value);
    }
    make_room(trace_.extra(step));
    for (const ValueId value : trace_.step_reads(step)) {
      --uses_left_[at(value)];
      unlock(value);
    }
  }

  /// `beside`: bytes that are live only meanwhile.
  void run(OpId op, int64_t beside) {
    int64_t bytes = beside;
    for (const ValueId value : trace_.makes(op)) {
      if (resident_[at(value)] == 0) bytes += trace_.bytes(value);
    }
    for (const ValueId value : trace_.reads(op)) ++locks_[at(value)];
    make_room(bytes);
    for (const ValueId value : trace_.reads(op)) --locks_[at(value)];
    for (const ValueId value : trace_.makes(op)) {
      hold(value);
      drop_if_useless(value);
    }
  }

  void hold(ValueId value) {
    if (resident_[at(value)] != 0) return;
    resident_[at(value)] = 1;
    held_ += trace_.bytes(value);
    if (uses_left_[at(value)] > 0) candidates_.push({score(value), value});
  }

  void drop(ValueId value) {
    resident_[at(value)] = 0;
    held_ -= trace_.bytes(value);
  }

  void drop_if_useless(ValueId value) {
    if (locks_[at(value)] == 0 && uses_left_[at(value)] == 0 && resident_[at(value)] != 0) {
      drop(value);
    }
  }

  void lock(ValueId value) { ++locks_[at(value)]; }

  void unlock(ValueId value) {
    --locks_[at(value)];
    drop_if_useless(value);
  }

  /// Scores only rise while nothing is run again, so the lowest remembered one, asked again, is the
  /// lowest when it has not risen above the next.
  void make_room(int64_t bytes) {
    std::vector<Candidate> locked;
    while (held_ + bytes > budget_ && !candidates_.empty()) {
      Candidate candidate = candidates_.top();
      candidates_.pop();
      const ValueId value = candidate.value;
      if (resident_[at(value)] == 0 || uses_left_[at(value)] == 0) continue;
      if (locks_[at(value)] > 0) {
        locked.push_back(candidate);
        continue;
      }
      candidate.score = score(value);
      if (!candidates_.empty() && candidate.score > candidates_.top().score * 1.0001) {
        candidates_.push(candidate);
        continue;
      }
      drop(value);
    }
    for (const Candidate& candidate : locked) candidates_.push(candidate);
  }

  /// Time to have the value again, for each byte and each step that it waits until its next use.
  [[nodiscard]] double score(ValueId value) {
    const auto steps = trace_.wanted_by(value);
    const auto next = std::lower_bound(steps.begin(), steps.end(), step_);
    const int32_t wait = (next == steps.end() ? trace_.steps() : *next) - step_ + 1;
    return cost(value) /
           (static_cast<double>(trace_.bytes(value) + 1) * std::pow(wait, impatience_));
  }

  [[nodiscard]] double cost(ValueId value) {
    double us = 0;
    seen_.clear();
    ++search_;
    const auto visit = [&](OpId op) {
      if (op == kNone || seen_in_[at(op)] == search_) return;
      seen_in_[at(op)] = search_;
      seen_.push_back(op);
    };
    visit(trace_.producer(value));
    for (size_t i = 0; i < seen_.size() && i < kLookBack; ++i) {
      us += trace_.us(seen_[i]);
      for (const ValueId read : trace_.reads(seen_[i])) {
        if (resident_[at(read)] == 0) visit(trace_.producer(read));
      }
    }
    return us;
  }

  struct Candidate {
    double score;
    ValueId value;
    bool operator<(const Candidate& other) const {  // the lowest score is on top
      return score != other.score ? score > other.score : value > other.value;
    }
  };

  const Trace& trace_;
  int64_t budget_;
  double impatience_;
  Closure closure_;
  int64_t held_ = 0;
  StepId step_ = 0;
  int32_t runs_ = 0;
  KeepSet resident_;
  std::vector<int32_t> locks_;      ///< readers that are certain to come; not evicted above 0
  std::vector<int32_t> uses_left_;  ///< backward steps that will read the value
  std::priority_queue<Candidate> candidates_;
  std::vector<OpId> seen_;
  std::vector<int64_t> seen_in_;  ///< the search in which an operator was seen last
  int64_t search_ = 0;
};

}  // namespace

void evict_pass(Search& search) {
  for (const double impatience : {0.1, 0.25, 0.5, 1.0}) {
    // What it holds is not all that lives in a replay: a budget a little lower may fit.
    for (const double share : {1.0, 0.99, 0.97, 0.94, 0.9}) {
      const auto budget = static_cast<int64_t>(static_cast<double>(search.budget()) * share);
      const auto replay = Eviction(search.trace(), budget, impatience).play();
      if (replay && search.offer(*replay).peak <= search.budget()) break;
    }
  }
}

}  // namespace remat::plan
