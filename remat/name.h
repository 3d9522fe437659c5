#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace remat {

/// Names the value that the tensor shows, for policies (policy::names) and printed tapes, and
/// returns the tensor as it is: nothing is copied, and autograd sees nothing of it.
///
///     h = remat::name(attention(h), "attn_out");
///
/// Views of one tensor show one value. Many values may have the same name, and a value several.
/// Outside of regions it does nothing; likewise for what no operator of the region made (inputs,
/// parameters, results of custom Functions), which is held anyway. Throws std::invalid_argument for
/// an empty name.
at::Tensor name(at::Tensor tensor, const std::string& name);

}  // namespace remat
