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

/// REQUIRES: the recording is whole and has a profile, and backward has run. Times are averaged
/// over calls that are equal. Values that no node makes, parameters and inputs, are there whatever
/// the plan and left out.
StepTrace step_trace(const record::Recording& recording);

}  // namespace remat::budget
