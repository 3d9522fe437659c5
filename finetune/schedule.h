#pragma once

#include <cstdint>
#include <string_view>

namespace remat::finetune {

/// The learning rate over the steps of a training, by the formulas of transformers'
/// optimization.py.
class Schedule {
 public:
  enum class Shape { constant, constant_with_warmup, linear, cosine };

  /// `warmup` of at least 1 is a number of steps, below 1 a part of `steps`, rounded up.
  /// `constant` has no warm-up. Throws Error{usage} if a number is negative.
  Schedule(Shape shape, double learning_rate, int64_t steps, double warmup);

  /// The rate that step `step` (the first is 0) is taken with.
  [[nodiscard]] double at(int64_t step) const;

 private:
  [[nodiscard]] double factor(int64_t step) const;

  Shape shape_;
  double learning_rate_;
  int64_t steps_;
  int64_t warmup_;
};

/// The shape of that name, as in --lr-scheduler-type. Throws Error{usage}, listing the names.
Schedule::Shape schedule_shape(std::string_view name);

}  // namespace remat::finetune
