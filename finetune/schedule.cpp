#include "finetune/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "finetune/error.h"

namespace remat::finetune {

namespace {

constexpr std::array<std::pair<std::string_view, Schedule::Shape>, 4> kShapes{{
    {"constant", Schedule::Shape::constant},
    {"constant_with_warmup", Schedule::Shape::constant_with_warmup},
    {"linear", Schedule::Shape::linear},
    {"cosine", Schedule::Shape::cosine},
}};

/// A part of a span; a span of no steps counts as one, as transformers has it.
double part(int64_t of, int64_t span) {
  return static_cast<double>(of) / static_cast<double>(std::max<int64_t>(1, span));
}

}  // namespace

Schedule::Schedule(Shape shape, double learning_rate, int64_t steps, double warmup)
    : shape_(shape),
      learning_rate_(learning_rate),
      steps_(steps),
      warmup_(static_cast<int64_t>(warmup >= 1 ? warmup
                                               : std::ceil(static_cast<double>(steps) * warmup))) {
  if (learning_rate < 0 || warmup < 0)
    throw Error(Fault::usage, "learning_rate and warmup_steps must not be negative");
}

double Schedule::at(int64_t step) const { return learning_rate_ * factor(step); }

double Schedule::factor(int64_t step) const {
  if (shape_ == Shape::constant) return 1;
  if (step < warmup_) return part(step, warmup_);
  if (shape_ == Shape::constant_with_warmup) return 1;
  if (shape_ == Shape::linear) return std::max(0.0, part(steps_ - step, steps_ - warmup_));
  const double progress = part(step - warmup_, steps_ - warmup_);
  return std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * progress)));
}

Schedule::Shape schedule_shape(std::string_view name) {
  std::string names;
  for (const auto& [known, shape] : kShapes) {
    if (known == name) return shape;
    names += (names.empty() ? "" : ", ") + std::string(known);
  }
  throw Error(Fault::usage, "no schedule is called '" + std::string(name) + "': there is " + names);
}

}  // namespace remat::finetune
