#include "remat/budget/step_trace.h"

#include <algorithm>
#include <unordered_map>

namespace remat::budget {

using record::Recording;
using tape::kNone;
using tape::NodeId;

namespace {

class Builder {
 public:
  explicit Builder(const Recording& recording)
      : recording_(recording), tape_(recording.tape), profile_(*recording.profile) {}

  StepTrace operator()() {
    number_values();
    node_us_ = average_over_calls(tape_, profile_.node_us);
    for (NodeId id = 0; id < tape_.nodes(); ++id) add_operator(id);
    trace_.step_of_pack.assign(profile_.packs.size(), plan::kNone);
    for (const auto& step : profile_.steps) add_step(step);
    trace_.document.base_us = profile_.base_us();
    note_what_is_held();
    note_what_is_beside();
    return std::move(trace_);
  }

 private:
  void number_values() {
    number_.assign(tape_.values(), plan::kNone);
    for (tape::ValueId value = 0; value < tape_.values(); ++value) {
      if (tape_.value(value).producer == kNone) continue;
      number_[value] = static_cast<plan::ValueId>(trace_.value_of.size());
      trace_.value_of.push_back(value);
      trace_.document.bytes.push_back(tape_.buffer_bytes(tape_.value(value).buffer));
    }
  }

  void add_operator(NodeId id) {
    const tape::Node& node = tape_.node(id);
    plan::TraceDocument::Op op;
    op.name = node.call->op;
    op.us = node_us_[id];
    op.random = node.draw != kNone;
    add_values(tape_.reads(id), op.reads);
    add_values(tape_.writes(id), op.makes);
    add_values(tape_.results(id), op.makes);
    trace_.document.ops.push_back(std::move(op));
  }

  void add_values(std::span<const tape::ValueId> values, std::vector<plan::ValueId>& numbers) {
    for (const tape::ValueId value : values) {
      if (value == kNone || number_[value] == plan::kNone) continue;
      if (std::find(numbers.begin(), numbers.end(), number_[value]) == numbers.end())
        numbers.push_back(number_[value]);
    }
  }

  void add_step(const record::Profile::Step& measured) {
    plan::TraceDocument::Step step;
    step.extra_bytes = std::max<int64_t>(0, measured.extra_bytes);
    step.before_bytes = std::max<int64_t>(0, measured.before_bytes);
    for (const uint32_t pack : measured.packs) {
      trace_.step_of_pack[pack] = static_cast<plan::StepId>(trace_.document.steps.size());
      add_values(std::span(&profile_.packs[pack], 1), step.reads);
    }
    trace_.document.steps.push_back(std::move(step));
  }

  /// What a buffer held last is what the program still holds of it.
  void note_what_is_held() {
    auto& held_until = trace_.document.held_until;
    const auto ops = static_cast<plan::OpId>(tape_.nodes());
    for (const tape::ValueId value : trace_.value_of) {
      const auto buffer = tape_.value(value).buffer;
      const bool last = recording_.memories[buffer].current == value;
      const bool found = last && buffer < profile_.there_until.size();
      const auto until =
          found ? static_cast<plan::OpId>(profile_.there_until[buffer]) : plan::kNone;
      held_until.push_back(std::min(until, ops - 1));
    }
  }

  /// Whatever was live in forward when nothing was kept and the values do not explain.
  void note_what_is_beside() {
    const plan::Trace values(trace_.document);
    std::vector<int64_t> bytes(tape_.nodes() + 1);
    for (plan::ValueId value = 0; value < values.values(); ++value) {
      bytes[static_cast<size_t>(values.producer(value))] += values.bytes(value);
      bytes[static_cast<size_t>(values.last_forward(value)) + 1] -= values.bytes(value);
    }
    int64_t live = 0;
    for (NodeId id = 0; id < tape_.nodes(); ++id) {
      auto& op = trace_.document.ops[id];
      live += bytes[id];
      op.extra_bytes = profile_.node_peak[id] - live;
      op.workspace = profile_.node_growth[id];
      for (const plan::ValueId value : op.makes) op.workspace -= values.bytes(value);
    }
  }

  const Recording& recording_;
  const tape::Tape& tape_;
  const record::Profile& profile_;
  std::vector<plan::ValueId> number_;  ///< by the tape's ValueId
  std::vector<double> node_us_;
  StepTrace trace_;
};

}  // namespace

StepTrace step_trace(const Recording& recording) { return Builder(recording)(); }

std::vector<double> average_over_calls(const tape::Tape& tape, const std::vector<double>& node_us) {
  struct Mean {
    double us = 0;
    int calls = 0;
  };
  std::unordered_map<const tape::Call*, Mean> means;
  for (NodeId id = 0; id < tape.nodes(); ++id) {
    auto& mean = means[tape.node(id).call.get()];
    mean.us += node_us[id];
    ++mean.calls;
  }
  std::vector<double> averages;
  for (NodeId id = 0; id < tape.nodes(); ++id) {
    const auto& mean = means[tape.node(id).call.get()];
    averages.push_back(mean.us / mean.calls);
  }
  return averages;
}

}  // namespace remat::budget
