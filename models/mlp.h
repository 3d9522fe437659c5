#pragma once

#include <ATen/core/Tensor.h>

#include "models/linear.h"

namespace remat::models {

/// The gated feed-forward layer: down(silu(gate(x)) * up(x)) (Shazeer 2020, arXiv 2002.05202).
struct Mlp {
  Linear gate_proj;  ///< (intermediate, hidden)
  Linear up_proj;
  Linear down_proj;  ///< (hidden, intermediate)

  [[nodiscard]] at::Tensor forward(const at::Tensor& hidden) const;
};

}  // namespace remat::models
