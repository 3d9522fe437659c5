#include "remat/budget/follower.h"

namespace remat::budget {

using policy::Decision;

bool Follower::knows(const Guide& guide) const {
  return made_ < guide.seen.size() && guide.seen[made_] == seen_;
}

Decision Follower::decide(const policy::Facts& facts) {
  seen_ = seen_after(seen_, facts);
  ++made_;
  while (at_ < guides_.size() && !knows(*guides_[at_])) ++at_;
  if (at_ == guides_.size()) return Decision::recompute;
  const bool keeps = guides_[at_]->keeps[made_ - 1] != 0;
  has_kept_ = has_kept_ || keeps;
  return keeps ? Decision::keep : Decision::recompute;
}

std::shared_ptr<const Guide> Follower::led_by(const record::Recording& recording) const {
  if (at_ == guides_.size()) return nullptr;
  const auto& guide = guides_[at_];
  const bool whole = made_ == guide->keeps.size() && recording.packs == guide->packs;
  return whole && made_values(recording.tape) == guide->made ? guide : nullptr;
}

}  // namespace remat::budget
