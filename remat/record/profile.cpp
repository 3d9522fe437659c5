#include "remat/record/profile.h"

#include <algorithm>

namespace remat::record {

void Profile::operator_begins(Bytes bytes) {
  peak_ = std::max(peak_, bytes.window_peak);
  operator_began_with_ = bytes.live;
  operator_began_ = Clock::now();
}

void Profile::operator_ends(Bytes bytes) {
  operator_us_ = us_since(operator_began_);
  peak_ = std::max(peak_, bytes.window_peak);
  operator_workspace_ = bytes.window_peak - std::max(operator_began_with_, bytes.live);
}

void Profile::node_made() {
  node_us.push_back(operator_us_);
  node_workspace.push_back(operator_workspace_);
}

void Profile::value_asked(const void* node, uint32_t pack, Bytes bytes, int64_t own) {
  base_us_ += us_since(resumed_);
  peak_ = std::max(peak_, bytes.window_peak);
  if (!steps.empty()) {
    auto& extra = steps.back().extra_bytes;
    extra = std::max(extra, bytes.window_peak - own_);
  }
  if (steps.empty() || steps.back().node != node)
    steps.push_back({node, {}, 0, bytes.live - live_before_ - own});
  steps.back().packs.push_back(pack);
}

void Profile::value_served(int64_t own) {
  own_ = live_before_ + own;
  resumed_ = Clock::now();
}

}  // namespace remat::record
