#pragma once

#include <functional>
#include <span>
#include <vector>

#include "remat/tape/tape.h"

namespace remat::tape {

/// Answers whether a value can be had without running a node.
using AtHand = std::function<bool(ValueId)>;

/// The nodes that must run to have `wanted`, ascending. Follows producers backwards and stops at
/// values at hand and at sources. Uses a work list: tapes have 10^5 nodes, a recursion would
/// overflow the stack.
std::vector<NodeId> slice(const Tape& tape, std::span<const ValueId> wanted, const AtHand& at_hand);

/// Which values made by a run are worth holding afterwards (see Note [What a replay holds]).
///  run: the nodes that are about to run, ascending;
///  asked: the region of the saved tensor that caused the run;
///  pending: the saved tensors that backward has yet to ask for, the one that caused the run not
///  among them.
/// Returned as one flag a value.
std::vector<bool> held_after(const Tape& tape, std::span<const NodeId> run, RegionId asked,
                             std::span<const SavedId> pending, const AtHand& at_hand);

}  // namespace remat::tape
