#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace remat::record {

/// Hash of at most 64 evenly spaced elements of a plain tensor, never of the holes between them. 0
/// where the bytes cannot be read from the host. It samples: a net under the rules of the recorder,
/// not one of them.
uint64_t spot_hash(const at::Tensor& tensor);

/// A hash of every `block` elements of a plain CPU tensor, in logical order; the last may be of
/// fewer.
std::vector<uint64_t> block_hashes(const at::Tensor& tensor, int64_t block);

}  // namespace remat::record
