#pragma once

#include <memory>
#include <vector>

#include "remat/budget/guide.h"
#include "remat/policy/policy.h"

namespace remat::budget {

using Guides = std::vector<std::shared_ptr<const Guide>>;

/// Leads one step by the first of its guides that knows all that the step has made so far. Where
/// none does the step goes its own way: from there on nothing is kept, which needs the least memory
/// and is always right.
class Follower {
 public:
  explicit Follower(Guides guides) : guides_(std::move(guides)) {}

  /// Whether to keep the value that was just made.
  policy::Decision decide(const policy::Facts& facts);

  /// Whether anything was kept: its way through backward is then not measured.
  [[nodiscard]] bool has_kept() const { return has_kept_; }
  /// The guide that knew all of the step; null where there is none.
  [[nodiscard]] std::shared_ptr<const Guide> led_by(const record::Recording& recording) const;

 private:
  [[nodiscard]] bool knows(const Guide& guide) const;

  Guides guides_;
  size_t at_ = 0;  ///< the guide that leads; guides_.size(): none
  size_t made_ = 0;
  uint64_t seen_ = 0;
  bool has_kept_ = false;
};

}  // namespace remat::budget
