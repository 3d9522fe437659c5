#pragma once

#include <ATen/core/Tensor.h>

namespace remat::models {

/// Root mean square norm over the last dimension (Zhang and Sennrich 2019, arXiv 1910.07467).
/// Computed in float32, cast to the input's dtype, then scaled.
struct RmsNorm {
  at::Tensor weight;  ///< (width)
  double eps = 0.0;

  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const;
};

}  // namespace remat::models
