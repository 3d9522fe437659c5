#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace remat {

/// What remat did in this process since it started or since reset_stats(), all threads together.
struct Stats {
  int64_t regions = 0;  ///< outermost regions that recorded
  int64_t ops_recorded = 0;
  int64_t ops_replayed = 0;
  int64_t bytes_dropped = 0;  ///< of saved tensors that are recomputed
  int64_t bytes_kept = 0;     ///< of saved tensors that are kept; two that share memory count twice
  /// bytes_kept by reason: parameter, input, policy, unknown, opaque, suspended.
  std::map<std::string, int64_t> kept_by_reason;
};

Stats stats();
void reset_stats();

}  // namespace remat
