#include "models/rms_norm.h"

#include <ATen/TensorOperators.h>

namespace remat::models {

at::Tensor RmsNorm::forward(const at::Tensor& input) const {
  const auto wide = input.to(at::kFloat);
  const auto inverse = wide.pow(2).mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();
  return weight * (wide * inverse).to(input.scalar_type());
}

}  // namespace remat::models
