#include "remat/plan/simulator.h"

#include <algorithm>
#include <stdexcept>

namespace remat::plan {

std::string to_text(const Instant& instant, const Trace& trace) {
  if (instant.op == kNone) return "backward step " + std::to_string(instant.step);
  auto op = "operator " + std::to_string(instant.op) + " (" + trace.name(instant.op) + ")";
  switch (instant.kind) {
    case Instant::Kind::forward:
      return "forward of " + op;
    case Instant::Kind::replay:
      return "replay of " + op + " before backward step " + std::to_string(instant.step);
    case Instant::Kind::backward:
      return "backward step " + std::to_string(instant.step) + ", of " + op;
  }
  return op;
}

Simulator::Simulator(const Trace& trace) : trace_(trace) {}

Cost Simulator::run(const Replay& replay) {
  list_events(replay);
  place_instances();
  Cost cost;
  int64_t held = 0;
  peak_event_ = 0;
  for (size_t event = 0; event < events_.size(); ++event) {
    held += bytes_[event];
    const int32_t what = events_[event];
    bytes_[event] = held + beside_[event];
    if (bytes_[event] > cost.peak) {
      cost.peak = bytes_[event];
      peak_event_ = event;
    }
    if (what >= 0 && event >= static_cast<size_t>(trace_.ops())) cost.us += trace_.us(what);
  }
  bytes_.resize(events_.size());
  return cost;
}

void Simulator::list_events(const Replay& replay) {
  if (replay.rows() != trace_.steps()) {
    throw std::invalid_argument("plan: it has " + std::to_string(replay.rows()) +
                                " backward steps, the trace has " + std::to_string(trace_.steps()));
  }
  events_.clear();
  beside_.clear();
  for (OpId op = 0; op < trace_.ops(); ++op) {
    events_.push_back(op);
    beside_.push_back(trace_.extra_in_forward(op));
  }
  for (StepId step = 0; step < trace_.steps(); ++step) {
    for (const OpId op : replay[step]) {
      if (op < 0 || op >= trace_.ops()) {
        throw std::invalid_argument("plan: step " + std::to_string(step) + " replays operator " +
                                    std::to_string(op) + ", there is none");
      }
      events_.push_back(op);
      beside_.push_back(trace_.extra_in_replay(op, step));
    }
    events_.push_back(-1 - step);
    beside_.push_back(trace_.extra(step));
  }
}

void Simulator::place_instances() {
  bytes_.assign(events_.size() + 1, 0);
  dies_.assign(static_cast<size_t>(trace_.values()), kNone);
  for (auto event = static_cast<int32_t>(events_.size()) - 1; event >= 0; --event) {
    const int32_t what = events_[static_cast<size_t>(event)];
    if (what >= 0) {
      for (const ValueId value : trace_.makes(what)) place(value, event);
    }
    for (const ValueId value : what >= 0 ? trace_.reads(what) : trace_.step_reads(-1 - what)) {
      auto& dies = dies_[static_cast<size_t>(value)];
      if (dies == kNone) dies = event;
    }
  }
  for (ValueId value = 0; value < trace_.values(); ++value) {
    if (dies_[static_cast<size_t>(value)] == kNone) continue;
    if (trace_.producer(value) != kNone) {
      throw std::invalid_argument("plan: value " + std::to_string(value) +
                                  " is read before operator " +
                                  std::to_string(trace_.producer(value)) + " makes it");
    }
    place(value, 0);
  }
}

/// One instance of the value, from `born` to the last read seen behind it.
void Simulator::place(ValueId value, int32_t born) {
  auto& dies = dies_[static_cast<size_t>(value)];
  const int64_t bytes = trace_.bytes(value);
  // What forward makes cannot go before the program lets go of it.
  if (born < trace_.ops()) dies = std::max(dies, trace_.last_forward(value));
  bytes_[static_cast<size_t>(born)] += bytes;
  bytes_[static_cast<size_t>(std::max(born, dies)) + 1] -= bytes;
  dies = kNone;
}

Instant Simulator::peak_instant() const { return instant(peak_event_); }

Instant Simulator::instant(size_t event) const {
  if (events_.empty()) return {};
  const int32_t what = events_[event];
  if (what < 0) {
    return {Instant::Kind::backward, trace_.step_op(-1 - what), -1 - what};
  }
  if (event < static_cast<size_t>(trace_.ops())) return {Instant::Kind::forward, what, kNone};
  const auto step = std::find_if(events_.begin() + static_cast<ptrdiff_t>(event), events_.end(),
                                 [](int32_t next) { return next < 0; });
  return {Instant::Kind::replay, what, -1 - *step};
}

}  // namespace remat::plan
