#include "remat/plan/keep_timeline.h"

#include <algorithm>

namespace remat::plan {

// Note [What one value changes]
// Under a keep-set every operator runs again at most once, before the first step that wants one of
// its dropped results. Dropping a value may make its producer run again, earlier than it did or at
// all; only operators whose moment changes pass the question on to their producers. Then the lives
// of the values they read and make change, and with them
//  1. what is in memory at the beginning of the steps in between: one range addition for each end
//  of
//     a life;
//  2. the inner peak of the steps where an operator came or went or a life ends: these few steps
//  are
//     simulated again.
// The peak is the greatest sum of both, which PeakTree holds.

KeepTimeline::KeepTimeline(const Trace& trace, KeepSet keep)
    : trace_(trace),
      keep_(std::move(keep)),
      when_(index(trace.ops()), trace.steps()),
      replays_(index(trace.steps()) + 1),
      lives_(index(trace.values())),
      inner_(index(trace.steps())),
      tree_(forward_bytes()),
      queued_(index(trace.ops())),
      touched_(index(trace.values())),
      touched_steps_(index(trace.steps()) + 1) {
  for (OpId op = trace.ops() - 1; op >= 0; --op) {
    if (trace.relevant(op)) move(op, wanted_at(op));
  }
  for (ValueId value = 0; value < trace.values(); ++value) touch(value);
  for (StepId step = 0; step < trace.steps(); ++step) {
    touch_step(step);
  }
  settle_values();
  settle_steps();
}

KeepTimeline::Moment KeepTimeline::moment(StepId step, OpId op) {
  return (static_cast<Moment>(step) << 32) | op;
}

StepId KeepTimeline::step_of(Moment moment) { return static_cast<StepId>(moment >> 32); }

/// Bytes at every operator of forward when nothing stays beyond its last reader; then the steps.
std::vector<int64_t> KeepTimeline::forward_bytes() const {
  std::vector<int64_t> bytes(index(trace_.ops() + trace_.steps()) + 1);
  for (ValueId value = 0; value < trace_.values(); ++value) {
    if (trace_.last_forward(value) < 0) continue;
    bytes[index(std::max(trace_.producer(value), 0))] += trace_.bytes(value);
    bytes[index(trace_.last_forward(value)) + 1] -= trace_.bytes(value);
  }
  for (size_t i = 1; i < bytes.size(); ++i) bytes[i] += bytes[i - 1];
  bytes.pop_back();
  for (OpId op = 0; op < trace_.ops(); ++op) bytes[index(op)] += trace_.extra_in_forward(op);
  return bytes;
}

bool KeepTimeline::replayed(OpId op) const { return when_[index(op)] < trace_.steps(); }

Cost KeepTimeline::after_toggle(ValueId value) {
  const double us = us_;
  toggle(value);
  const Cost result = cost();
  toggle(value);
  us_ = us;  // sums of doubles do not undo themselves
  return result;
}

void KeepTimeline::toggle(ValueId value) {
  keep_[index(value)] ^= 1;
  touch(value);
  if (trace_.droppable(value)) settle_operators(trace_.producer(value));
  settle_values();
  settle_steps();
}

/// The first step that wants a dropped result of the operator, for itself or for a replay.
StepId KeepTimeline::wanted_at(OpId op) const {
  StepId first = trace_.steps();
  for (const ValueId value : trace_.makes(op)) {
    if (kept(value)) continue;
    const auto steps = trace_.wanted_by(value);
    if (!steps.empty()) first = std::min(first, steps.front());
    for (const OpId reader : trace_.readers(value)) first = std::min(first, when_[index(reader)]);
  }
  return first;
}

void KeepTimeline::settle_operators(OpId first) {
  const auto ask = [&](OpId op) {
    if (queued_[index(op)] != 0) return;
    queued_[index(op)] = 1;
    operators_.push(op);
  };
  ask(first);
  while (!operators_.empty()) {
    const OpId op = operators_.top();
    operators_.pop();
    queued_[index(op)] = 0;
    ++work_;
    const StepId step = wanted_at(op);
    if (step == when_[index(op)]) continue;
    move(op, step);
    for (const ValueId value : trace_.makes(op)) touch(value);
    for (const ValueId value : trace_.reads(op)) {
      touch(value);
      if (!kept(value) && trace_.droppable(value)) ask(trace_.producer(value));
    }
  }
}

void KeepTimeline::move(OpId op, StepId to) {
  StepId& when = when_[index(op)];
  if (when < trace_.steps()) {
    auto& from = replays_[index(when)];
    from.erase(std::lower_bound(from.begin(), from.end(), op));
    touch_step(when);
    us_ -= trace_.us(op);
  }
  when = to;
  if (to < trace_.steps()) {
    auto& into = replays_[index(to)];
    into.insert(std::lower_bound(into.begin(), into.end(), op), op);
    touch_step(to);
    us_ += trace_.us(op);
  }
}

KeepTimeline::Life KeepTimeline::life_of(ValueId value) const {
  Life life;
  const OpId producer = trace_.producer(value);
  if (producer != kNone && replayed(producer)) {
    life.remade = life.remade_end = moment(when_[index(producer)], producer);
  }
  const bool split = life.remade != kNever;
  const auto use = [&](Moment moment) {
    auto& end = split && moment >= life.remade ? life.remade_end : life.end;
    end = std::max(end, moment);
  };
  const auto steps = trace_.wanted_by(value);
  if (!steps.empty()) {
    // All steps matter only where a kept value is made again in between.
    if (split && kept(value)) {
      for (const StepId step : steps) use(moment_of_step(step));
    } else {
      use(moment_of_step(steps.back()));
    }
  }
  for (const OpId reader : trace_.readers(value)) {
    if (replayed(reader)) use(moment(when_[index(reader)], reader));
  }
  return life;
}

void KeepTimeline::settle_values() {
  for (const ValueId value : values_) {
    touched_[index(value)] = 0;
    const Life life = life_of(value);
    Life& known = lives_[index(value)];
    ++work_;
    if (life == known) continue;
    count(known, value, -1);
    count(life, value, 1);
    known = life;
  }
  values_.clear();
}

/// Adds or takes back what the life holds at the beginning of steps and late in forward.
void KeepTimeline::count(const Life& life, ValueId value, int64_t sign) {
  const int64_t bytes = sign * trace_.bytes(value);
  const auto step_leaf = [&](Moment moment) { return index(trace_.ops() + step_of(moment)); };
  if (life.end != kNever) {
    tree_.add(index(trace_.last_forward(value) + 1), step_leaf(life.end) + 1, bytes);
    touch_step(step_of(life.end));
  }
  if (life.remade != kNever) {
    tree_.add(step_leaf(life.remade) + 1, step_leaf(life.remade_end) + 1, bytes);
    touch_step(step_of(life.remade));
    touch_step(step_of(life.remade_end));
  }
}

void KeepTimeline::settle_steps() {
  for (const StepId step : steps_) {
    touched_steps_[index(step)] = 0;
    const int64_t inner = inner_peak(step);
    const auto leaf = index(trace_.ops() + step);
    tree_.add(leaf, leaf + 1, inner - inner_[index(step)]);
    inner_[index(step)] = inner;
  }
  steps_.clear();
}

int64_t KeepTimeline::inner_peak(StepId step) const {
  int64_t held = 0;
  int64_t peak = 0;
  const auto ends = [&](ValueId value, Moment now) {
    const Life& life = lives_[index(value)];
    return life.end == now || life.remade_end == now;
  };
  for (const OpId op : replays_[index(step)]) {
    const Moment now = moment(step, op);
    for (const ValueId value : trace_.makes(op)) held += trace_.bytes(value);
    peak = std::max(peak, held + trace_.extra_in_replay(op, step));
    for (const ValueId value : trace_.makes(op)) held -= ends(value, now) ? trace_.bytes(value) : 0;
    for (const ValueId value : trace_.reads(op)) held -= ends(value, now) ? trace_.bytes(value) : 0;
  }
  return std::max(peak, held + trace_.extra(step));
}

void KeepTimeline::touch(ValueId value) {
  if (touched_[index(value)] != 0) return;
  touched_[index(value)] = 1;
  values_.push_back(value);
}

void KeepTimeline::touch_step(StepId step) {
  if (touched_steps_[index(step)] != 0) return;
  touched_steps_[index(step)] = 1;
  steps_.push_back(step);
}

}  // namespace remat::plan
