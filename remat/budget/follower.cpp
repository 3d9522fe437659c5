#include "remat/budget/follower.h"

#include <algorithm>
#include <functional>

namespace remat::budget {

using policy::Decision;

bool Follower::knows_last(const Guide& guide) const {
  const size_t made = bytes_.size();
  return made < guide.seen.size() && guide.seen[made] == seen_ &&
         guide.bytes[made - 1] >= bytes_.back();
}

/// A guide that comes in late must have decided all before as it was decided.
bool Follower::knows_all(const Guide& guide) const {
  return knows_last(guide) &&
         std::equal(bytes_.begin(), bytes_.end(), guide.bytes.begin(), std::less_equal<>()) &&
         std::equal(keeps_.begin(), keeps_.end(), guide.keeps.begin());
}

Decision Follower::decide(const policy::Facts& facts) {
  seen_ = seen_after(seen_, facts);
  bytes_.push_back(facts.bytes);
  const bool first = bytes_.size() == 1;
  if (first && std::find(unled_.begin(), unled_.end(), facts.bytes) != unled_.end())
    at_ = guides_.size();
  if (at_ < guides_.size() && !knows_last(*guides_[at_])) {
    const auto next = std::find_if(guides_.begin() + static_cast<ptrdiff_t>(at_) + 1, guides_.end(),
                                   [&](const auto& guide) { return knows_all(*guide); });
    at_ = static_cast<size_t>(next - guides_.begin());
  }
  const bool keeps = at_ < guides_.size() && guides_[at_]->keeps[bytes_.size() - 1] != 0;
  keeps_.push_back(keeps);
  has_kept_ = has_kept_ || keeps;
  return keeps ? Decision::keep : Decision::recompute;
}

std::shared_ptr<const Guide> Follower::led_by(const record::Recording& recording) const {
  if (at_ == guides_.size()) return nullptr;
  const auto& guide = guides_[at_];
  const bool whole = bytes_.size() == guide->keeps.size() && recording.packs == guide->packs;
  return whole && made_values(recording.tape) == guide->made ? guide : nullptr;
}

bool Follower::is_of(const Guide& guide) const {
  return seen_ == guide.seen.back() && bytes_ == guide.bytes;
}

}  // namespace remat::budget
