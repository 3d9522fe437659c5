#include "remat/plan/phase.h"

#include <algorithm>

namespace remat::plan {

namespace {

size_t at(int32_t id) { return static_cast<size_t>(id); }

/// Numbers the values of the whole anew as they are first seen.
class Renumbering {
 public:
  explicit Renumbering(const Trace& trace) : trace_(trace), number_(at(trace.values()), kNone) {}

  ValueId operator()(ValueId value) {
    ValueId& number = number_[at(value)];
    if (number == kNone) {
      number = static_cast<ValueId>(value_of.size());
      value_of.push_back(value);
      bytes.push_back(trace_.bytes(value));
    }
    return number;
  }

  std::vector<ValueId> all(std::span<const ValueId> values) {
    std::vector<ValueId> numbers;
    for (const ValueId value : values) numbers.push_back((*this)(value));
    return numbers;
  }

  std::vector<ValueId> value_of;
  std::vector<int64_t> bytes;

 private:
  const Trace& trace_;
  std::vector<ValueId> number_;
};

}  // namespace

Phase phase_of(const Trace& trace, StepId first, StepId end, const Handover& handover) {
  const auto& [at_hand, carried] = handover;
  std::vector<ValueId> wanted;
  for (StepId step = first; step < end; ++step) {
    const auto reads = trace.step_reads(step);
    wanted.insert(wanted.end(), reads.begin(), reads.end());
  }
  Closure closure(trace);
  const auto ops = closure(wanted, at_hand);
  Renumbering number(trace);
  TraceDocument document;
  for (const OpId op : ops) {
    std::vector<ValueId> made;
    int64_t workspace = trace.document().ops[at(op)].workspace;
    // What is at hand is let go again, though the operator runs for its other results.
    for (const ValueId value : trace.makes(op)) {
      if (at_hand[at(value)] == 0) {
        made.push_back(value);
      } else {
        workspace += trace.bytes(value);
      }
    }
    document.ops.push_back(
        {.name = {},
         .us = trace.us(op),
         .reads = number.all(trace.reads(op)),
         .makes = number.all(made),
         .extra_bytes = workspace + trace.document().steps[at(first)].before_bytes,
         .workspace = workspace});
  }
  for (StepId step = first; step < end; ++step) {
    auto own = trace.document().steps[at(step)];
    own.op = kNone;
    own.reads = number.all(trace.step_reads(step));
    document.steps.push_back(std::move(own));
  }
  TraceDocument::Step holds;
  for (ValueId value = 0; value < trace.values(); ++value) {
    if (carried[at(value)] != 0) holds.reads.push_back(number(value));
  }
  document.steps.push_back(std::move(holds));
  document.bytes = number.bytes;
  return {Trace(std::move(document)), first, end, {ops.begin(), ops.end()}, number.value_of};
}

void append(Replay& whole, const Phase& phase, const Replay& own) {
  if (phase.first < phase.end) whole.add_row(phase.op_of);
  for (StepId step = 1; step < phase.end - phase.first; ++step) {
    for (const OpId op : own[step]) whole.push(phase.op_of[at(op)]);
    whole.end_row();
  }
}

}  // namespace remat::plan
