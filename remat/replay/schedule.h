#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "remat/tape/ids.h"

namespace remat::replay {

/// A plan in terms of a tape: which nodes run again before each step of backward, and how long what
/// they make is held. Made for one recording of which nothing is pruned.
struct Schedule {
  using Step =
      uint32_t;  ///< position of an autograd node in backward, of those that ask for values
  static constexpr Step kNoStep = UINT32_MAX;

  struct Made {
    tape::ValueId value = tape::kNone;
    Step until = 0;  ///< the last step that uses it before it is made again
  };
  std::vector<std::vector<tape::NodeId>> runs;  ///< by step, ascending
  std::vector<std::vector<Made>> holds;         ///< by step: what is held of what its run made
  std::vector<Step> asked_in;                   ///< by pack; kNoStep: the plan does not know it
};

}  // namespace remat::replay
