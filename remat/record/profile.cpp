#include "remat/record/profile.h"

#include <algorithm>

namespace remat::record {

void Profile::operator_begins(Bytes bytes) {
  peak_ = std::max(peak_, bytes.window_peak);
  saw_behind_node(bytes.window_peak);
  operator_began_with_ = bytes.live;
  operator_began_ = Clock::now();
}

void Profile::operator_ends(Bytes bytes) {
  operator_us_ = us_since(operator_began_);
  peak_ = std::max(peak_, bytes.window_peak);
  operator_peak_ = bytes.window_peak;
  operator_growth_ = bytes.window_peak - operator_began_with_;
}

void Profile::node_made() {
  node_us.push_back(operator_us_);
  node_growth.push_back(operator_growth_);
  node_peak.push_back(operator_peak_ - live_before_);
}

/// What the node made and read may go only then.
void Profile::saw_behind_node(int64_t window_peak) {
  if (!node_peak.empty()) node_peak.back() = std::max(node_peak.back(), window_peak - live_before_);
}

void Profile::found(tape::BufferId buffer, tape::NodeId before) {
  if (there_until.size() <= buffer) there_until.resize(buffer + 1, 0);
  there_until[buffer] = before;
}

void Profile::value_asked(const void* node, uint32_t pack, Bytes bytes, int64_t own) {
  base_us_ += us_since(resumed_);
  if (steps.empty()) saw_behind_node(bytes.window_peak);
  saw(bytes.window_peak);
  if (steps.empty() || steps.back().node != node)
    steps.push_back({node, {}, 0, bytes.live - live_before_ - own});
  steps.back().packs.push_back(pack);
}

void Profile::saw(int64_t window_peak) {
  peak_ = std::max(peak_, window_peak);
  if (steps.empty()) return;
  auto& extra = steps.back().extra_bytes;
  extra = std::max(extra, window_peak - own_);
}

void Profile::value_served(int64_t own) {
  own_ = live_before_ + own;
  resumed_ = Clock::now();
}

}  // namespace remat::record
