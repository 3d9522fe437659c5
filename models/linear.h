#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

namespace remat::models {

/// y = x W^T + b, with a place for an adapter.
struct Linear {
  /// Given the input (..., in) and the base layer's output (..., out), returns the adapted output.
  /// May write `output` in place: nothing else holds it, and autograd has not saved it.
  using Adapter = std::function<at::Tensor(const at::Tensor& input, const at::Tensor& output)>;

  at::Tensor weight;  ///< (out, in)
  at::Tensor bias;    ///< (out), or undefined
  Adapter adapter;    ///< or empty

  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const;

  [[nodiscard]] int64_t in_features() const { return weight.size(1); }
  [[nodiscard]] int64_t out_features() const { return weight.size(0); }
};

}  // namespace remat::models
