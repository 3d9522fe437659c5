#include "remat/record/profile.h"

#include <algorithm>

namespace remat::record {

void Profile::value_asked(const void* node, uint32_t pack, int64_t window_peak) {
  base_us_ += us_since(resumed_);
  peak_ = std::max(peak_, window_peak);
  if (!steps.empty()) {
    auto& extra = steps.back().extra_bytes;
    extra = std::max(extra, window_peak - own_);
  }
  if (steps.empty() || steps.back().node != node) steps.push_back({node, {}, 0});
  steps.back().packs.push_back(pack);
}

void Profile::value_served(int64_t own) {
  own_ = live_before_ + own;
  resumed_ = Clock::now();
}

}  // namespace remat::record
