#include "finetune/sampler.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace remat::finetune {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Fisher and Yates. std::shuffle draws differently in every standard library: a checkpoint would
/// go on with other rows elsewhere.
void shuffle(Sampler::Rows& rows, std::mt19937_64& random) {
  for (size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random() % i]);
}

}  // namespace

Sampler::Sampler(const Options& options) : options_(options) {}

int64_t Sampler::steps_per_epoch() const {
  return ceil_div(ceil_div(options_.rows, options_.batch), options_.accumulation);
}

std::vector<Sampler::Rows> Sampler::at(int64_t step) {
  open(step / steps_per_epoch());
  const int64_t per_step = options_.batch * options_.accumulation;
  const int64_t begin = step % steps_per_epoch() * per_step;
  const int64_t end = std::min(begin + per_step, options_.rows);

  std::vector<Rows> batches;
  for (int64_t at = begin; at < end; at += options_.batch) {
    const int64_t last = std::min(at + options_.batch, end);
    batches.emplace_back(order_.begin() + at, order_.begin() + last);
  }
  return batches;
}

void Sampler::open(int64_t epoch) {
  if (epoch == epoch_) return;
  order_.resize(static_cast<size_t>(options_.rows));
  std::iota(order_.begin(), order_.end(), 0);
  if (options_.shuffle) {
    // A seed sequence, not a sum: seed 1 of epoch 0 must not be seed 0 of epoch 1.
    std::seed_seq both{options_.seed, options_.seed >> 32, static_cast<uint64_t>(epoch)};
    std::mt19937_64 random(both);
    shuffle(order_, random);
  }
  epoch_ = epoch;
}

}  // namespace remat::finetune
