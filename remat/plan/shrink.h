#pragma once

#include <cstdint>

#include "remat/plan/keep_timeline.h"

namespace remat::plan {

/// How much a pass may do. Counted, not timed: the same trace and budget give the same plan on a
/// busy machine.
struct ShrinkLimits {
  int32_t refresh = 40;      ///< rounds after which every toggle is asked again
  int64_t fresh_work = 0;    ///< until which every toggle is asked in every round
  int64_t work = INT64_MAX;  ///< see KeepTimeline::work
};

/// Steepest descent: toggles the value that costs least added time for each byte of exact peak
/// saved until the peak fits the budget. Ratios are remembered and go stale; each round asks the
/// best few again. Returns false when no toggle lowers the peak any more, or the work is used up.
bool shrink(KeepTimeline& timeline, const Trace& trace, int64_t budget, ShrinkLimits limits = {});

/// Keeps more values while the budget holds, most time saved for each byte first. The peak has to
/// fit the budget already.
void fill(KeepTimeline& timeline, const Trace& trace, int64_t budget, int64_t work = INT64_MAX);

}  // namespace remat::plan
