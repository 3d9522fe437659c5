#pragma once

#include <cstdint>
#include <vector>

namespace remat::finetune {

/// Which rows of a data set a step is made of.
///
/// An epoch visits every row once, in an order drawn from the seed and the epoch's number. A step
/// is `accumulation` micro-batches of `batch` rows; the last ones of an epoch may be smaller.
/// The answer depends on the step alone, so the sampler's position in a checkpoint is the step.
class Sampler {
 public:
  using Rows = std::vector<int64_t>;

  struct Options {
    int64_t rows = 0;
    int64_t batch = 1;
    int64_t accumulation = 1;
    bool shuffle = true;
    uint64_t seed = 0;
  };

  /// REQUIRES: rows, batch and accumulation are at least 1.
  explicit Sampler(const Options& options);

  [[nodiscard]] int64_t steps_per_epoch() const;
  /// The micro-batches of step `step`; the first is 0.
  [[nodiscard]] std::vector<Rows> at(int64_t step);

 private:
  void open(int64_t epoch);

  Options options_;
  int64_t epoch_ = -1;  ///< whose order `order_` is
  Rows order_;
};

}  // namespace remat::finetune
