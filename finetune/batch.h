#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "finetune/dataset.h"

namespace remat::finetune {

/// Rows of a data set as tensors (B, T): T is the longest row's length. Shorter rows are padded on
/// the right, where causal attention shows the padding to no token before it, and labels ignore it.
struct Batch {
  at::Tensor tokens;    ///< int64
  at::Tensor labels;    ///< int64: at t the token t + 1, or kIgnored
  int64_t length = 0;   ///< tokens without padding
  int64_t trained = 0;  ///< labels that are not ignored
};

Batch make_batch(const Dataset& dataset, const std::vector<int64_t>& rows);

/// Random tokens (rows, length), all trained on but the first of a row: for measuring a step where
/// there are no data. Draws from the default generator.
Batch random_batch(int64_t rows, int64_t length, int64_t vocabulary);

}  // namespace remat::finetune
