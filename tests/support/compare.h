#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "remat/region.h"
#include "remat/stats.h"

namespace remat::testing {

using Tensors = std::vector<at::Tensor>;

/// What the function under test makes of the tensors it is given; its result is differentiated.
using Forward = std::function<at::Tensor(const Tensors&)>;

/// What happens between forward and backward to the same tensors.
using Between = std::function<void(const Tensors&)>;

/// Numbers from a generator of their own, the same for the same sizes and seed.
at::Tensor constant(at::IntArrayRef sizes = {4, 4}, uint64_t seed = 1);
/// The same, to differentiate by.
at::Tensor leaf(at::IntArrayRef sizes = {4, 4}, uint64_t seed = 1);

/// Expects equal types, sizes and bits.
void expect_same_bits(const at::Tensor& actual, const at::Tensor& expected,
                      const std::string& what);

/// Runs `forward` on copies of `inputs`, plainly and in a region, then backward, and expects the
/// result, every gradient, the inputs as they are left and the default generator to be equal bit
/// for bit. Returns the statistics of the run with the region.
Stats expect_same_as_plain(
    const Forward& forward, const Tensors& inputs, const Between& between = [](const Tensors&) {},
    const RegionOptions& options = {});

/// Also that operators were replayed: whoever keeps everything is right without effort.
Stats expect_replayed_as_plain(
    const Forward& forward, const Tensors& inputs, const Between& between = [](const Tensors&) {},
    const RegionOptions& options = {});

/// Runs forward in a region, `between`, then backward; returns what the error says that backward
/// throws.
std::string error_in_backward(const Forward& forward, const Tensors& inputs,
                              const Between& between);

/// What became of the tensors that autograd saves while `body` runs in a region, in bytes:
/// "recomputed 64, input 16".
std::string saved_by(const std::function<void()>& body, const RegionOptions& options = {});

/// The operators that a region records while `body` runs: "aten::mul.Tensor aten::exp".
std::string recorded(const std::function<void()>& body);

/// The names of the operators on a tape.
std::string ops_of(const tape::Tape& tape);

}  // namespace remat::testing
