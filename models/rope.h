#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "models/config.h"

namespace remat::models {

/// Cosines and sines of a batch's positions, laid out for apply_rope.
struct Rotation {
  at::Tensor cos;         ///< (B or 1, T, 1, head_dim)
  at::Tensor signed_sin;  ///< the same shape; the first half of the last dimension negated
};

/// 1 / wavelength of every pair of elements: (head_dim / 2), float32.
at::Tensor inverse_frequencies(const RopeConfig& config, int64_t head_dim);

/// Angles are computed in float32 and cast to `dtype` at the end.
///  positions: (B or 1, T) int64.
Rotation make_rotation(const at::Tensor& inverse_frequencies, const at::Tensor& positions,
                       at::ScalarType dtype);

/// Rotates element i of each head with element i + head_dim / 2.
///  heads: (B, T, heads, head_dim).
at::Tensor apply_rope(const at::Tensor& heads, const Rotation& rotation);

}  // namespace remat::models
