#include "models/rope.h"

#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/where.h>

namespace remat::models {

namespace {

/// Llama 3.1: long wavelengths are stretched, short ones kept, those between blended.
at::Tensor stretch_low_frequencies(const at::Tensor& frequencies, const RopeConfig& config) {
  const auto context = static_cast<double>(config.original_max_position_embeddings);
  const double low_wavelength = context / config.low_freq_factor;
  const double high_wavelength = context / config.high_freq_factor;
  const auto wavelengths = (2.0 * std::numbers::pi) / frequencies;

  const auto stretched = frequencies / config.factor;
  const auto share = (context / wavelengths - config.low_freq_factor) /
                     (config.high_freq_factor - config.low_freq_factor);
  const auto blended = (1.0 - share) * stretched + share * frequencies;
  const auto outside = at::where(wavelengths > low_wavelength, stretched, frequencies);
  const auto between = (wavelengths >= high_wavelength).logical_and(wavelengths <= low_wavelength);
  return at::where(between, blended, outside);
}

}  // namespace

at::Tensor inverse_frequencies(const RopeConfig& config, int64_t head_dim) {
  const auto exponents = at::arange(0, head_dim, 2, at::kFloat) / head_dim;
  const auto frequencies = 1.0 / at::pow(config.theta, exponents);
  switch (config.scaling) {
    case RopeConfig::Scaling::none:
      return frequencies;
    case RopeConfig::Scaling::linear:
      return frequencies / config.factor;
    case RopeConfig::Scaling::llama3:
      return stretch_low_frequencies(frequencies, config);
  }
  return frequencies;
}

Rotation make_rotation(const at::Tensor& inverse_frequencies, const at::Tensor& positions,
                       at::ScalarType dtype) {
  const auto angles = (positions.to(at::kFloat).unsqueeze(-1) * inverse_frequencies).unsqueeze(2);
  const auto cos = angles.cos();
  const auto sin = angles.sin();
  return {at::cat({cos, cos}, -1).to(dtype), at::cat({-sin, sin}, -1).to(dtype)};
}

at::Tensor apply_rope(const at::Tensor& heads, const Rotation& rotation) {
  // Swapping the halves puts every element's partner under it: two kernels and one temporary less
  // than negating and joining slices, and autograd saves nothing of the input's size.
  const auto partners = at::roll(heads, heads.size(-1) / 2, -1);
  return at::addcmul(heads * rotation.cos, partners, rotation.signed_sin);
}

}  // namespace remat::models
