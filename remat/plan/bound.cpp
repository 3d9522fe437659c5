#include "remat/plan/bound.h"

#include <algorithm>
#include <limits>

#include "remat/plan/byte_cut.h"
#include "remat/plan/keep_set.h"

namespace remat::plan {

namespace {

size_t at(int32_t id) { return static_cast<size_t>(id); }

/// Bytes during every operator of forward when nothing outlives its last reader.
std::vector<int64_t> forward_bytes(const Trace& trace) {
  std::vector<int64_t> bytes(at(trace.ops()) + 1);
  for (ValueId value = 0; value < trace.values(); ++value) {
    if (trace.last_forward(value) == kNone) continue;
    bytes[at(std::max(trace.producer(value), 0))] += trace.bytes(value);
    bytes[at(trace.last_forward(value)) + 1] -= trace.bytes(value);
  }
  for (size_t op = 1; op < bytes.size(); ++op) bytes[op] += bytes[op - 1];
  bytes.pop_back();
  for (OpId op = 0; op < trace.ops(); ++op) bytes[at(op)] += trace.extra_in_forward(op);
  return bytes;
}

/// What backward reads behind the instant, if it was made before.
std::vector<ValueId> needs_behind(const Trace& trace, const Instant& instant) {
  std::vector<ValueId> needs;
  for (ValueId value = 0; value < trace.values(); ++value) {
    if (!trace.saved(value)) continue;
    const bool behind = instant.kind == Instant::Kind::forward
                            ? trace.producer(value) <= instant.op
                            : trace.wanted_by(value).back() > instant.step;
    if (behind) needs.push_back(value);
  }
  return needs;
}

Forced forced_in_forward(const Trace& trace, OpId op) {
  Forced forced{.at = {Instant::Kind::forward, op, kNone}, .values = {}};
  if (op != kNone) forced.bytes = trace.extra_in_forward(op);  // kNone: of a step without any
  for (ValueId value = 0; value < trace.values(); ++value) {
    const bool lives = trace.producer(value) <= op && trace.last_forward(value) >= op;
    forced.values.push_back(lives);
    if (lives) forced.bytes += trace.bytes(value);
  }
  return forced;
}

Forced forced_in_backward(const Trace& trace, StepId step) {
  Forced forced{.at = {Instant::Kind::backward, trace.step_op(step), step},
                .bytes = trace.extra(step),
                .values = std::vector<uint8_t>(at(trace.values()))};
  for (const ValueId value : trace.step_reads(step)) {
    forced.values[at(value)] = 1;
    forced.bytes += trace.bytes(value);
  }
  return forced;
}

/// The last operator of forward at which nearly as much is forced as anywhere: the layers before it
/// have left most behind them.
Forced last_wide(const Trace& trace) {
  const auto bytes = forward_bytes(trace);
  if (bytes.empty()) return narrowest(trace);
  const int64_t most = *std::max_element(bytes.begin(), bytes.end());
  const auto wide = std::find_if(bytes.rbegin(), bytes.rend(),
                                 [&](int64_t forced) { return forced >= most - most / 20; });
  return forced_in_forward(trace, static_cast<OpId>(bytes.rend() - wide) - 1);
}

}  // namespace

Forced forced_at(const Trace& trace, const Instant& instant) {
  return instant.kind == Instant::Kind::backward ? forced_in_backward(trace, instant.step)
                                                 : forced_in_forward(trace, instant.op);
}

Forced narrowest(const Trace& trace) {
  const auto bytes = forward_bytes(trace);
  const auto widest = std::max_element(bytes.begin(), bytes.end());
  Forced narrow;
  narrow.values.resize(at(trace.values()));
  if (widest != bytes.end()) {
    narrow = forced_in_forward(trace, static_cast<OpId>(widest - bytes.begin()));
  }
  for (StepId step = 0; step < trace.steps(); ++step) {
    if (Forced forced = forced_in_backward(trace, step); forced.bytes > narrow.bytes) {
      narrow = std::move(forced);
    }
  }
  return narrow;
}

Forced forced_at_plain_peak(const Trace& trace) {
  Simulator simulator(trace);
  simulator.run(replay_of(trace, keep_all(trace)));
  return forced_at(trace, simulator.peak_instant());
}

double lower_bound_us(const Trace& trace, const Forced& forced, int64_t budget) {
  const int64_t room = budget - forced.bytes;
  if (room < 0) return std::numeric_limits<double>::infinity();
  const auto needs = needs_behind(trace, forced.at);
  if (needs.empty()) return 0;
  ByteCut cut(trace, needs, forced.values);
  double best = 0;
  // The Lagrangian is concave in the price and greatest where what is kept crosses the room.
  cut.search([&] {
    best = std::max(best, cut.objective() - cut.us_per_byte() * static_cast<double>(room));
    return cut.paid_bytes() <= room;
  });
  return best;
}

double lower_bound_us(const Trace& trace, int64_t budget) {
  const Forced narrow = narrowest(trace);
  if (narrow.bytes > budget) return std::numeric_limits<double>::infinity();
  const Forced plain = forced_at_plain_peak(trace);
  const Forced late = last_wide(trace);
  double bound = lower_bound_us(trace, plain, budget);
  if (late.at != plain.at) bound = std::max(bound, lower_bound_us(trace, late, budget));
  if (narrow.at != plain.at && narrow.at != late.at) {
    bound = std::max(bound, lower_bound_us(trace, narrow, budget));
  }
  return bound;
}

}  // namespace remat::plan
