#include "remat/plan/keep_set.h"

#include <algorithm>

namespace remat::plan {

namespace {

size_t at(int32_t id) { return static_cast<size_t>(id); }

}  // namespace

KeepSet keep_all(const Trace& trace) {
  KeepSet keep(at(trace.values()));
  for (ValueId value = 0; value < trace.values(); ++value) keep[at(value)] = trace.saved(value);
  return keep;
}

Closure::Closure(const Trace& trace) : trace_(trace), marked_(at(trace.ops())) {}

std::span<const OpId> Closure::operator()(std::span<const ValueId> wanted, const KeepSet& at_hand) {
  found_.clear();
  const auto visit = [&](ValueId value) {
    const OpId producer = trace_.producer(value);
    if (producer == kNone || at_hand[at(value)] != 0 || marked_[at(producer)] != 0) return;
    marked_[at(producer)] = 1;
    found_.push_back(producer);
  };
  for (const ValueId value : wanted) visit(value);
  size_t next = 0;
  while (next < found_.size()) {  // visiting appends
    for (const ValueId value : trace_.reads(found_[next++])) visit(value);
  }
  for (const OpId op : found_) marked_[at(op)] = 0;
  std::sort(found_.begin(), found_.end());
  return found_;
}

Replay replay_of(const Trace& trace, const KeepSet& keep) {
  KeepSet at_hand = keep;
  Closure closure(trace);
  Replay replay;
  for (StepId step = 0; step < trace.steps(); ++step) {
    const auto ops = closure(trace.step_reads(step), at_hand);
    for (const OpId op : ops) {
      for (const ValueId value : trace.makes(op)) at_hand[at(value)] = 1;
    }
    replay.add_row(ops);
  }
  return replay;
}

KeepSimulator::KeepSimulator(const Trace& trace)
    : trace_(trace),
      still_(at(trace.ops()) + 1),
      first_step_(at(trace.values())),
      when_(at(trace.ops()), trace.steps()),
      place_(at(trace.ops()), kNone),
      step_place_(at(trace.steps())) {
  for (OpId op = 0; op < trace.ops(); ++op) {
    if (trace.relevant(op)) relevant_.push_back(op);
    beside_.push_back(trace.extra_in_forward(op));
  }
  for (ValueId value = 0; value < trace.values(); ++value) {
    const auto wanted = trace.wanted_by(value);
    first_step_[at(value)] = wanted.empty() ? trace.steps() : wanted.front();
    const OpId producer = trace.producer(value);
    const bool moves = producer == kNone ? trace.saved(value) || !trace.readers(value).empty()
                                         : trace.relevant(producer);
    if (moves) {
      moving_.push_back(value);
    } else if (producer != kNone) {
      still_[at(producer)] += trace.bytes(value);
      still_[at(trace.last_forward(value)) + 1] -= trace.bytes(value);
    }
  }
}

Cost KeepSimulator::run(const KeepSet& keep) {
  find_replays(keep);
  place_events();
  change_.assign(beside_.size() + 1, 0);
  std::copy(still_.begin(), still_.end(), change_.begin());
  for (const ValueId value : moving_) place_value(value, keep[at(value)] != 0);

  Cost cost;
  int64_t held = 0;
  for (size_t event = 0; event < beside_.size(); ++event) {
    held += change_[event];
    cost.peak = std::max(cost.peak, held + beside_[event]);
  }
  for (const OpId op : relevant_) {
    if (when_[at(op)] < trace_.steps()) cost.us += trace_.us(op);
  }
  work_ += trace_.ops();
  return cost;
}

/// An operator runs again before the first step that wants, directly or for a replay, a result of
/// it that is not kept. Readers come after their producers, so one sweep from the last to the
/// first.
void KeepSimulator::find_replays(const KeepSet& keep) {
  for (size_t i = relevant_.size(); i-- > 0;) {
    const OpId op = relevant_[i];
    StepId when = trace_.steps();
    for (const ValueId value : trace_.makes(op)) {
      if (keep[at(value)] != 0) continue;
      when = std::min(when, first_step_[at(value)]);
      for (const OpId reader : trace_.readers(value)) when = std::min(when, when_[at(reader)]);
    }
    when_[at(op)] = when;
  }
}

/// Events in order: forward, then for each step its replays, ascending, and the step itself.
void KeepSimulator::place_events() {
  std::fill(step_place_.begin(), step_place_.end(), 0);
  for (const OpId op : relevant_) {
    if (when_[at(op)] < trace_.steps()) ++step_place_[at(when_[at(op)])];
  }
  int32_t next = trace_.ops();
  for (int32_t& place : step_place_) {
    const int32_t replays = place;
    place = next;
    next += replays + 1;
  }
  beside_.resize(at(next));
  for (const OpId op : relevant_) {
    const StepId step = when_[at(op)];
    place_[at(op)] = step < trace_.steps() ? step_place_[at(step)]++ : kNone;
    if (step < trace_.steps()) beside_[at(place_[at(op)])] = trace_.extra_in_replay(op, step);
  }
  for (StepId step = 0; step < trace_.steps(); ++step)
    beside_[at(step_place_[at(step)])] = trace_.extra(step);
}

void KeepSimulator::place_value(ValueId value, bool kept) {
  const OpId producer = trace_.producer(value);
  const int64_t bytes = trace_.bytes(value);
  const int32_t remade = producer == kNone ? kNone : place_[at(producer)];
  if (kept && remade != kNone) return place_remade(value, remade);
  change_[at(std::max(producer, 0))] += bytes;
  if (remade == kNone) {
    change_[at(last_use(value)) + 1] -= bytes;
    return;
  }
  change_[at(trace_.last_forward(value)) + 1] -= bytes;
  change_[at(remade)] += bytes;
  change_[at(std::max(remade, last_use(value))) + 1] -= bytes;
}

/// A kept value that a replay makes again beside another result of the same operator: the kept one
/// lives until its last use before that, the new one until the last after it.
void KeepSimulator::place_remade(ValueId value, int32_t remade) {
  int32_t before = trace_.last_forward(value);
  int32_t after = remade;
  const auto use = [&](int32_t event) {
    auto& end = event < remade ? before : after;
    end = std::max(end, event);
  };
  for (const StepId step : trace_.wanted_by(value)) use(step_place_[at(step)]);
  for (const OpId reader : trace_.readers(value)) use(place_[at(reader)]);
  const int64_t bytes = trace_.bytes(value);
  change_[at(trace_.producer(value))] += bytes;
  change_[at(before) + 1] -= bytes;
  change_[at(remade)] += bytes;
  change_[at(after) + 1] -= bytes;
}

int32_t KeepSimulator::last_use(ValueId value) const {
  int32_t last = std::max(trace_.last_forward(value), 0);
  const auto wanted = trace_.wanted_by(value);
  if (!wanted.empty()) last = std::max(last, step_place_[at(wanted.back())]);
  for (const OpId reader : trace_.readers(value)) last = std::max(last, place_[at(reader)]);
  return last;
}

std::vector<int64_t> KeepSimulator::profile() const {
  std::vector<int64_t> most(at(trace_.ops() + trace_.steps()), INT64_MIN);
  int64_t held = 0;
  StepId step = 0;
  const auto events = static_cast<int32_t>(beside_.size());
  for (int32_t event = 0; event < events; ++event) {
    if (event > trace_.ops() && event == step_place_[at(step)] + 1) ++step;
    auto& top = most[at(event < trace_.ops() ? event : trace_.ops() + step)];
    held += change_[at(event)];
    top = std::max(top, held + beside_[at(event)]);
  }
  return most;
}

}  // namespace remat::plan
