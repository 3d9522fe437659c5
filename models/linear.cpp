#include "models/linear.h"

#include <ATen/ops/linear.h>

namespace remat::models {

at::Tensor Linear::forward(const at::Tensor& input) const {
  auto output = bias.defined() ? at::linear(input, weight, bias) : at::linear(input, weight);
  return adapter ? adapter(input, output) : output;
}

}  // namespace remat::models
