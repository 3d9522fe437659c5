#include "remat/record/spot.h"

#include <cstring>

namespace remat::record {

namespace {

constexpr int64_t kSamples = 64;

uint64_t mixed(uint64_t hash, uint64_t bits) {
  hash = (hash ^ bits) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29U);
}

uint64_t bits_at(const char* element, size_t size) {
  uint64_t first = 0;
  std::memcpy(&first, element, std::min<size_t>(size, sizeof(first)));
  if (size <= sizeof(first)) return first;
  uint64_t second = 0;
  std::memcpy(&second, element + sizeof(first), std::min(size - sizeof(first), sizeof(second)));
  return mixed(first, second);
}

/// Offset in elements of the `index`-th element in logical order.
int64_t offset_of(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides) {
  int64_t offset = 0;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    offset += (index % sizes[dim]) * strides[dim];
    index /= sizes[dim];
  }
  return offset;
}

}  // namespace

uint64_t spot_hash(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  const int64_t count = impl->numel();
  if (count == 0 || impl->device_type() != c10::kCPU) return 0;
  const size_t size = impl->itemsize();
  const auto* base =
      static_cast<const char*>(impl->unsafe_storage().data()) + static_cast<size_t>(impl->storage_offset()) * size;
  const int64_t samples = std::min(count, kSamples);
  const bool contiguous = impl->is_contiguous();
  uint64_t hash = static_cast<uint64_t>(count);
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t index = samples == 1 ? 0 : i * (count - 1) / (samples - 1);
    const int64_t offset = contiguous ? index : offset_of(index, impl->sizes(), impl->strides());
    hash = mixed(hash, bits_at(base + static_cast<size_t>(offset) * size, size));
  }
  return hash | 1U;  // 0 says "not hashed"
}

}  // namespace remat::record
