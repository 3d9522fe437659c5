#include "remat/budget/guide.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_set>

#include <c10/util/hash.h>

namespace remat::budget {

using replay::Schedule;

namespace {

/// How long what a plan's replays make is used. Walks the steps backwards: the first use met of a
/// value is the last one.
class Lives {
 public:
  Lives(const plan::Trace& trace, const plan::Replay& replay, const StepTrace& step)
      : trace_(trace),
        replay_(replay),
        step_(step),
        until_(static_cast<size_t>(trace.values()), plan::kNone),
        made_at_(static_cast<size_t>(trace.values()), plan::kNone) {}

  Schedule schedule() {
    Schedule schedule;
    const auto steps = static_cast<size_t>(trace_.steps());
    schedule.runs.resize(steps);
    schedule.holds.resize(steps);
    for (plan::StepId step = trace_.steps() - 1; step >= 0; --step) {
      const auto run = replay_[step];
      schedule.runs[static_cast<size_t>(step)].assign(run.begin(), run.end());
      walk(step, schedule.holds[static_cast<size_t>(step)]);
    }
    for (const plan::StepId step : step_.step_of_pack)
      schedule.asked_in.push_back(step == plan::kNone ? Schedule::kNoStep
                                                      : static_cast<Schedule::Step>(step));
    return schedule;
  }

 private:
  void walk(plan::StepId step, std::vector<Schedule::Made>& holds) {
    for (const plan::ValueId value : trace_.step_reads(step)) use(value, step);
    const auto run = replay_[step];
    for (const plan::OpId op : run) {
      for (const plan::ValueId value : trace_.makes(op)) made_at_[index(value)] = step;
    }
    for (const plan::OpId op : run) {
      for (const plan::ValueId value : trace_.makes(op)) end_life(value, holds);
    }
    for (const plan::OpId op : run) {
      for (const plan::ValueId value : trace_.reads(op)) {
        if (made_at_[index(value)] != step) use(value, step);
      }
    }
  }

  void use(plan::ValueId value, plan::StepId step) {
    if (until(value) == plan::kNone) until_[index(value)] = step;
  }

  void end_life(plan::ValueId value, std::vector<Schedule::Made>& holds) {
    if (until(value) == plan::kNone) return;
    holds.push_back({step_.value_of[index(value)], static_cast<Schedule::Step>(until(value))});
    until_[index(value)] = plan::kNone;
  }

  static size_t index(plan::ValueId value) { return static_cast<size_t>(value); }
  [[nodiscard]] plan::StepId until(plan::ValueId value) const { return until_[index(value)]; }

  const plan::Trace& trace_;
  const plan::Replay& replay_;
  const StepTrace& step_;
  std::vector<plan::StepId> until_;    ///< last use of the life that is walked; kNone: none so far
  std::vector<plan::StepId> made_at_;  ///< the step whose run makes it, the last one looked at
};

}  // namespace

uint64_t seen_after(uint64_t seen, const policy::Facts& facts) {
  seen = c10::hash_combine(seen, std::hash<std::string_view>()(facts.op));
  return c10::hash_combine(seen, static_cast<uint64_t>(facts.index) << 32U | facts.result);
}

std::vector<tape::ValueId> made_values(const tape::Tape& tape) {
  std::vector<tape::ValueId> made;
  for (tape::NodeId id = 0; id < tape.nodes(); ++id) {
    for (const tape::ValueId value : tape.writes(id)) made.push_back(value);
    for (const tape::ValueId value : tape.results(id)) made.push_back(value);
  }
  return made;
}

Guide guide_of(const record::Recording& recording) {
  Guide guide;
  guide.step = step_trace(recording);
  guide.trace = std::make_shared<const plan::Trace>(guide.step.document);
  guide.node_us = recording.profile->node_us;
  guide.base_us = recording.profile->base_us();
  guide.timed_steps = 1;
  guide.packs = static_cast<uint32_t>(guide.step.step_of_pack.size());
  guide.made = made_values(recording.tape);
  guide.seen = {0};
  const auto& tape = recording.tape;
  for (tape::NodeId id = 0; id < tape.nodes(); ++id) {
    uint32_t result = 0;
    const auto add = [&](tape::ValueId value) {
      const policy::Facts facts{tape.node(id).call->op, tape.buffer_bytes(tape.value(value).buffer),
                                id, result++};
      guide.seen.push_back(seen_after(guide.seen.back(), facts));
      guide.bytes.push_back(facts.bytes);
    };
    for (const tape::ValueId value : tape.writes(id)) add(value);
    for (const tape::ValueId value : tape.results(id)) add(value);
  }
  return guide;
}

Guide timed_again(Guide guide, const record::Recording& recording) {
  const auto& profile = *recording.profile;
  std::transform(guide.node_us.begin(), guide.node_us.end(), profile.node_us.begin(),
                 guide.node_us.begin(), std::plus<>());
  guide.base_us += profile.base_us();
  ++guide.timed_steps;
  return guide;
}

std::shared_ptr<const plan::Trace> averaged_trace(const Guide& guide, const tape::Tape& tape) {
  auto document = guide.trace->document();
  const auto us = average_over_calls(tape, guide.node_us);
  for (size_t op = 0; op < us.size(); ++op) document.ops[op].us = us[op] / guide.timed_steps;
  document.base_us = guide.base_us / guide.timed_steps;
  return std::make_shared<const plan::Trace>(std::move(document));
}

std::shared_ptr<const Guide> with_plan(Guide guide, plan::Plan plan) {
  guide.schedule =
      std::make_shared<const Schedule>(Lives(*guide.trace, plan.replay, guide.step).schedule());
  std::unordered_set<tape::ValueId> kept;
  for (const plan::ValueId value : plan.kept)
    kept.insert(guide.step.value_of[static_cast<size_t>(value)]);
  guide.keeps.clear();
  for (const tape::ValueId value : guide.made) guide.keeps.push_back(kept.count(value) != 0);
  guide.plan = std::move(plan);
  return std::make_shared<const Guide>(std::move(guide));
}

}  // namespace remat::budget
