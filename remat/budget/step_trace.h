#pragma once

#include <vector>

#include "remat/plan/trace.h"
#include "remat/record/recording.h"

/// Between a recorded step and the planner: the step as the planner's problem, and the planner's
/// answer as something that later steps can follow.
namespace remat::budget {

/// A measured step as a planning problem. An operator is the node with the same number.
struct StepTrace {
  plan::TraceDocument document;
  std::vector<tape::ValueId> value_of;     ///< by the planner's ValueId
  std::vector<plan::StepId> step_of_pack;  ///< the step that asks for it; kNone: none did
};

/// REQUIRES: the recording is whole and has a profile, and backward has run. Values that no node
/// makes, parameters and inputs, are there whatever the plan and left out.
StepTrace step_trace(const record::Recording& recording);

/// By operator, microseconds: `node_us` averaged over calls that are equal. One sample an operator
/// is noise; a model runs the same call once a layer.
std::vector<double> average_over_calls(const tape::Tape& tape, const std::vector<double>& node_us);

}  // namespace remat::budget
