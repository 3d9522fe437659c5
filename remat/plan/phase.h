#pragma once

#include <vector>

#include "remat/plan/keep_set.h"
#include "remat/plan/trace.h"

namespace remat::plan {

/// What a phase finds when it begins, and what of that has to outlive it.
struct Handover {
  const KeepSet& at_hand;
  const KeepSet& carried;
};

/// Some backward steps in a row as a step of their own: what has to run again for them is its
/// forward, what is still at hand is there from its start. All planners work on it as they do on
/// the whole. A last step reads what later phases will find at hand, which holds it in memory.
struct Phase {
  Trace trace;
  StepId first = 0;               ///< of the whole, its step 0
  StepId end = 0;                 ///< of the whole, one behind its last
  std::vector<OpId> op_of;        ///< of the whole, ascending
  std::vector<ValueId> value_of;  ///< of the whole
};

/// The backward steps [first, end) when the flagged values are at hand and `carried` of them have
/// to outlive it.
Phase phase_of(const Trace& trace, StepId first, StepId end, const Handover& handover);

/// Appends the rows of a phase's steps to the plan of the whole: its forward and what `own`, its
/// own plan, runs before its first step are one list, so that an operator in both runs once.
void append(Replay& whole, const Phase& phase, const Replay& own);

}  // namespace remat::plan
