#pragma once

#include <cstdint>

#include "remat/plan/keep_timeline.h"

namespace remat::plan {

/// Local search below the budget, which the peak has to fit already. Values are lumps: what fill
/// and shrink leave is often a few large ones that should be others. Tries, for one value after the
/// other, to drop it and keep others instead, and to keep it and drop others instead; takes what
/// lowers the time. Ends when nothing does, or the work is used up.
void exchange(KeepTimeline& timeline, const Trace& trace, int64_t budget, int64_t work);

}  // namespace remat::plan
