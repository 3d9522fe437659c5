#pragma once

#include <memory>
#include <vector>

#include "remat/budget/guide.h"
#include "remat/policy/policy.h"

namespace remat::budget {

/// Ordered by the bytes of what their steps make, least first.
using Guides = std::vector<std::shared_ptr<const Guide>>;

/// Leads one step by the first of its guides that knows all operators of the step so far, and of
/// which no value is smaller: the step then takes no more than the guide's did. Where there is none
/// the step goes its own way: from there on nothing is kept, which needs the least memory and is
/// always right.
class Follower {
 public:
  /// `unled`: a step whose first value has one of these sizes, bytes, is led by none.
  explicit Follower(Guides guides, std::vector<int64_t> unled = {})
      : guides_(std::move(guides)), unled_(std::move(unled)) {}

  /// Whether to keep the value that was just made.
  policy::Decision decide(const policy::Facts& facts);

  /// Whether anything was kept: its way through backward is then not measured.
  [[nodiscard]] bool has_kept() const { return has_kept_; }
  /// The guide that knew all of the step; null where there is none.
  [[nodiscard]] std::shared_ptr<const Guide> led_by(const record::Recording& recording) const;
  /// Whether the guide is of a step of the same operators and sizes.
  [[nodiscard]] bool is_of(const Guide& guide) const;
  /// Bytes of the first value: what tells sizes of batches apart. 0: nothing was made.
  [[nodiscard]] int64_t first_bytes() const { return bytes_.empty() ? 0 : bytes_.front(); }

 private:
  [[nodiscard]] bool knows_last(const Guide& guide) const;
  [[nodiscard]] bool knows_all(const Guide& guide) const;

  Guides guides_;
  std::vector<int64_t> unled_;
  size_t at_ = 0;               ///< the guide that leads; guides_.size(): none
  std::vector<int64_t> bytes_;  ///< of the values so far
  std::vector<uint8_t> keeps_;  ///< and which were kept
  uint64_t seen_ = 0;
  bool has_kept_ = false;
};

}  // namespace remat::budget
