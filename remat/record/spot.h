#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace remat::record {

/// Hash of at most 64 evenly spaced elements of a plain tensor, never of the holes between them. 0
/// where the bytes cannot be read from the host. It samples: a net under the rules of the recorder,
/// not one of them.
uint64_t spot_hash(const at::Tensor& tensor);

/// Hash of all bytes of a storage, 0 where they cannot be read from the host. Takes as long as
/// reading them: for what a rule of the recorder decides by.
uint64_t whole_hash(const c10::StorageImpl& storage);
/// The same of the bytes from a plain tensor's first element to its last.
uint64_t span_hash(const at::Tensor& tensor);

/// A hash of every `block` elements of a plain CPU tensor, in logical order; the last may be of
/// fewer. Empty where the tensor has no bytes.
std::vector<uint64_t> block_hashes(const at::Tensor& tensor, int64_t block);

}  // namespace remat::record
