#pragma once

#include <memory>
#include <vector>

#include "remat/budget/step_trace.h"
#include "remat/plan/plan.h"
#include "remat/policy/policy.h"
#include "remat/replay/schedule.h"

namespace remat::budget {

/// Folds what an operator was seen to make into a running hash: its name, and which result.
uint64_t seen_after(uint64_t seen, const policy::Facts& facts);

/// A step as it was measured, and a plan for it made ready for later steps to follow.
struct Guide {
  StepTrace step;
  std::shared_ptr<const plan::Trace> trace;  ///< the same as the planner sees it
  std::vector<uint64_t> seen;       ///< hash of what was made before each value, and after the last
  std::vector<int64_t> bytes;       ///< of the values, in the order of making
  std::vector<tape::ValueId> made;  ///< what the tape calls the values, in the order of making
  uint32_t packs = 0;               ///< values that autograd saves
  std::vector<double> node_us;      ///< by operator, summed over the steps whose times were taken
  double base_us = 0;               ///< of the whole step, likewise
  int timed_steps = 0;

  plan::Plan plan;
  std::shared_ptr<const replay::Schedule> schedule;
  std::vector<uint8_t> keeps;  ///< by value in the order of making
};

/// The guide of this recording's step, without a plan.
Guide guide_of(const record::Recording& recording);

/// The guide with this plan for its trace.
std::shared_ptr<const Guide> with_plan(Guide guide, plan::Plan plan);

/// The guide with the times of another step of its kind. REQUIRES: the recording has a profile.
Guide timed_again(Guide guide, const record::Recording& recording);

/// The guide's step with the times averaged over the steps that were timed. `tape`: of any of them.
std::shared_ptr<const plan::Trace> averaged_trace(const Guide& guide, const tape::Tape& tape);

/// The values that the tape's nodes made, in the order in which policies are asked about them.
std::vector<tape::ValueId> made_values(const tape::Tape& tape);

}  // namespace remat::budget
