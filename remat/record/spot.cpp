#include "remat/record/spot.h"

#include <algorithm>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "remat/record/view.h"

namespace remat::record {

namespace {

constexpr int64_t kSamples = 64;

uint64_t mixed(uint64_t hash, uint64_t bits) {
  hash = (hash ^ bits) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29U);
}

uint64_t bits_at(const char* element, size_t size) {
  if (size == sizeof(uint32_t)) {
    uint32_t bits = 0;
    std::memcpy(&bits, element, sizeof(bits));
    return bits;
  }
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

/// Hash of `samples` elements; `offset` gives where the i-th of them lies.
template <typename Offset>
uint64_t hashed(const char* base, size_t size, int64_t samples, uint64_t hash,
                const Offset& offset) {
  for (int64_t i = 0; i < samples; ++i)
    hash = mixed(hash, bits_at(base + offset(i) * static_cast<int64_t>(size), size));
  return hash | 1U;  // 0 says "not hashed"
}

const char* first_element(const at::TensorImpl& impl) {
  return static_cast<const char*>(impl.unsafe_storage().data()) +
         static_cast<size_t>(impl.storage_offset()) * impl.itemsize();
}

}  // namespace

uint64_t spot_hash(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  const int64_t count = impl->numel();
  if (count == 0 || impl->device_type() != c10::kCPU || !has_bytes(tensor)) return 0;
  const size_t size = impl->itemsize();
  const auto* base = first_element(*impl);
  const int64_t samples = std::min(count, kSamples);
  const auto seed = static_cast<uint64_t>(count);
  const bool contiguous = impl->is_contiguous();
  if (contiguous && count <= kSamples)
    return hashed(base, size, samples, seed, [](int64_t i) { return i; });
  const auto index = [&](int64_t i) { return samples == 1 ? 0 : i * (count - 1) / (samples - 1); };
  if (contiguous) return hashed(base, size, samples, seed, index);
  const auto sizes = impl->sizes();
  const auto strides = impl->strides();
  return hashed(base, size, samples, seed,
                [&](int64_t i) { return offset_of(index(i), sizes, strides); });
}

uint64_t whole_hash(const c10::StorageImpl& storage) {
  if (storage.device_type() != c10::kCPU || storage.data() == nullptr) return 0;
  return XXH3_64bits(storage.data(), storage.nbytes()) | 1U;
}

uint64_t span_hash(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || tensor.numel() == 0 || !has_bytes(tensor)) return 0;
  return XXH3_64bits(first_element(*tensor.unsafeGetTensorImpl()), span_of(tensor).bytes()) | 1U;
}

std::vector<uint64_t> block_hashes(const at::Tensor& tensor, int64_t block) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  const int64_t count = has_bytes(tensor) ? impl->numel() : 0;
  const auto* base = first_element(*impl);
  const auto sizes = impl->sizes();
  const auto strides = impl->strides();
  const bool contiguous = impl->is_contiguous();
  std::vector<uint64_t> hashes;
  for (int64_t first = 0; first < count; first += block) {
    hashes.push_back(hashed(
        base, impl->itemsize(), std::min(block, count - first), 0,
        [&](int64_t i) { return contiguous ? first + i : offset_of(first + i, sizes, strides); }));
  }
  return hashes;
}

}  // namespace remat::record
