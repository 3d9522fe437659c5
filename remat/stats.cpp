#include "remat/stats.h"

#include "remat/record/stats.h"

namespace remat {

Stats stats() {
  const auto& counters = record::counters();
  Stats stats;
  stats.regions = counters.regions;
  stats.ops_recorded = counters.ops_recorded;
  stats.ops_replayed = counters.ops_replayed;
  for (size_t i = 0; i < record::kReasons; ++i) {
    const auto reason = static_cast<record::Reason>(i);
    const int64_t bytes = counters.saved_bytes[i];
    if (reason == record::Reason::recomputed) {
      stats.bytes_dropped = bytes;
    } else {
      stats.bytes_kept += bytes;
      stats.kept_by_reason[record::name_of(reason)] = bytes;
    }
  }
  return stats;
}

void reset_stats() { record::counters().reset(); }

}  // namespace remat
