#include "remat/budget/sizes.h"

namespace remat::budget {

namespace {

/// Steps of one size that the plan of a larger one leads before the size gets a plan of its own.
constexpr int kLedByLarger = 2;

/// Steps of one size that are measured at most: where each is another (data decides what a model
/// does), plans lead nowhere.
constexpr int kMostMeasured = 8;

}  // namespace

void Sizes::measure_next(int64_t size) {
  std::erase(to_measure_, size);
  if (++wanted_[size] <= kMostMeasured) to_measure_.push_back(size);
}

void Sizes::led_by_larger(int64_t size) {
  if (++led_by_larger_[size] == kLedByLarger) measure_next(size);
}

void Sizes::planned(int64_t size) { std::erase(to_measure_, size); }

}  // namespace remat::budget
