#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace remat::budget {

/// Of which batches a step is to be measured, so that they get a plan of their own. A size is the
/// bytes of the first value that a step makes: what is known of it before anything is decided.
class Sizes {
 public:
  /// The next step of the size is to be measured: what was met of it has no plan.
  void measure_next(int64_t size);
  /// A step of the size was led by the plan of a larger batch, which recomputes more than it has
  /// to: worth a step that is measured where the size comes again and again.
  void led_by_larger(int64_t size);
  /// It has a plan now.
  void planned(int64_t size);

  [[nodiscard]] const std::vector<int64_t>& to_measure() const { return to_measure_; }

 private:
  std::vector<int64_t> to_measure_;
  std::map<int64_t, int> wanted_;         ///< how often the size was to be measured
  std::map<int64_t, int> led_by_larger_;  ///< steps
};

}  // namespace remat::budget
