#include "models/mlp.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/silu.h>

namespace remat::models {

at::Tensor Mlp::forward(const at::Tensor& hidden) const {
  return down_proj.forward(at::silu(gate_proj.forward(hidden)) * up_proj.forward(hidden));
}

}  // namespace remat::models
