#pragma once

#include <memory>
#include <vector>

#include "remat/budget/step_trace.h"
#include "remat/plan/plan.h"
#include "remat/policy/policy.h"
#include "remat/replay/schedule.h"

namespace remat::budget {

/// Folds what an operator was seen to make into a running hash: its name, which result, its bytes.
uint64_t seen_after(uint64_t seen, const policy::Facts& facts);

/// A plan made ready for steps to follow.
struct Guide {
  plan::Plan plan;
  std::shared_ptr<const replay::Schedule> schedule;
  std::vector<uint64_t> seen;       ///< hash of what was made before each value, and after the last
  std::vector<uint8_t> keeps;       ///< by value in the order of making
  std::vector<tape::ValueId> made;  ///< what the tape calls them
  uint32_t packs = 0;               ///< values that autograd saves
};

/// The guide that a plan for this recording's step means.
Guide guide_of(const record::Recording& recording, const StepTrace& step, const plan::Trace& trace,
               plan::Plan plan);

/// The values that the tape's nodes made, in the order in which policies are asked about them.
std::vector<tape::ValueId> made_values(const tape::Tape& tape);

}  // namespace remat::budget
