#include "remat/record/view.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <variant>

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/ScalarTypeToTypeMeta.h>
#include <c10/core/TensorOptions.h>

namespace remat::record {

namespace {

constexpr size_t kAlignment = 64;

const c10::DispatchKeySet kWrapperKeys({c10::DispatchKey::Python,
                                        c10::DispatchKey::FuncTorchBatched,
                                        c10::DispatchKey::FuncTorchGradWrapper,
                                        c10::DispatchKey::Functionalize});
const c10::DispatchKeySet kOpaqueKeys = c10::DispatchKeySet(
    {c10::DispatchKey::ZeroTensor, c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr,
     c10::DispatchKey::Quantized, c10::DispatchKey::NestedTensor});

/// "float32", by ScalarType's number.
std::array<std::string, static_cast<size_t>(c10::ScalarType::NumOptions)> dtype_names() {
  std::array<std::string, static_cast<size_t>(c10::ScalarType::NumOptions)> names;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto type = static_cast<c10::ScalarType>(i);
    if (type != c10::ScalarType::Undefined) names[i] = c10::getDtypeNames(type).first;
  }
  return names;
}

at::Tensor bytes_of(const c10::Storage& storage) {
  tape::Geometry geometry;
  geometry.dtype = dtype_of(c10::ScalarType::Byte);
  geometry.extents = {static_cast<int64_t>(storage.nbytes()), 1};
  return view_over(storage, geometry);
}

/// What a storage owns that shows only the bytes from `begin` on. Its data pointer is where byte 0
/// would be, so that geometry of the whole storage holds; nothing before `begin` may be read.
struct Window {
  std::variant<c10::DataPtr, c10::Storage> owner;
  size_t begin;
};

void let_go_of_window(void* window) { delete static_cast<Window*>(window); }

/// A storage whose byte `begin` lies at `start`.
c10::Storage window_at(char* start, size_t begin, size_t bytes, c10::Device device,
                       std::variant<c10::DataPtr, c10::Storage> owner) {
  c10::DataPtr data(start - begin, new Window{std::move(owner), begin}, &let_go_of_window, device);
  return {c10::Storage::use_byte_size_t(), bytes, std::move(data), nullptr, false};
}

/// Memory for `bytes` whose address modulo 64 is `remainder`.
c10::DataPtr allocate_host(size_t bytes, size_t remainder) {
  c10::DataPtr block = c10::GetAllocator(c10::kCPU)->allocate(bytes + remainder);
  if (remainder == 0) return block;
  auto* start = static_cast<char*>(block.get());
  const auto deleter = block.get_deleter();
  void* context = block.release_context();
  return {start + remainder, context, deleter, c10::Device(c10::kCPU)};
}

/// A storage of `end` bytes on the host of which those from `begin` on exist, aligned as they were
/// in a storage at `address`.
c10::Storage allocate_host_window(size_t begin, size_t end, uintptr_t address) {
  auto block = allocate_host(end - begin, (address + begin) % kAlignment);
  auto* start = static_cast<char*>(block.get());
  if (begin != 0) return window_at(start, begin, end, c10::Device(c10::kCPU), std::move(block));
  return {c10::Storage::use_byte_size_t(), end, std::move(block), c10::GetAllocator(c10::kCPU),
          false};
}

}  // namespace

Kind kind_of(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  const auto keys = impl->key_set();
  if (keys.has_any(kWrapperKeys)) return Kind::wrapper;
  if (keys.has_any(kOpaqueKeys) || impl->layout() != c10::kStrided || !impl->has_storage())
    return Kind::opaque;
  const auto& storage = impl->unsafe_storage();
  if (storage.device_type() == c10::kMeta) return Kind::opaque;
  return storage.data() == nullptr && storage.nbytes() != 0 ? Kind::opaque : Kind::plain;
}

tape::DType dtype_of(c10::ScalarType type) {
  static const auto& names =
      *new auto(dtype_names());  // tapes in statics may be printed after it would die
  return {static_cast<int8_t>(type), static_cast<uint8_t>(c10::elementSize(type)),
          names[static_cast<size_t>(type)].c_str()};
}

tape::Geometry geometry_of(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  const auto device = impl->device();
  tape::Geometry geometry;
  geometry.dtype = dtype_of(c10::typeMetaToScalarType(impl->dtype()));
  geometry.device = {static_cast<int8_t>(device.type()), device.index()};
  geometry.conjugate = impl->is_conj();
  geometry.negative = impl->is_neg();
  geometry.offset = impl->storage_offset();
  const auto sizes = impl->sizes();
  const auto strides = impl->strides();
  geometry.extents.reserve(2 * sizes.size());
  geometry.extents.insert(geometry.extents.end(), sizes.begin(), sizes.end());
  geometry.extents.insert(geometry.extents.end(), strides.begin(), strides.end());
  return geometry;
}

at::Tensor view_over(c10::Storage storage, const tape::Geometry& geometry) {
  const auto type = static_cast<c10::ScalarType>(geometry.dtype.code);
  const auto key = c10::computeDispatchKey(type, c10::kStrided, storage.device());
  auto tensor = at::detail::make_tensor<at::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(type));
  auto* impl = tensor.unsafeGetTensorImpl();
  const auto n = geometry.dimensions();
  impl->set_sizes_and_strides({geometry.sizes(), n}, {geometry.strides(), n}, geometry.offset);
  if (geometry.conjugate) impl->_set_conj(true);
  if (geometry.negative) impl->_set_neg(true);
  return tensor;
}

bool covers_storage(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() &&
         static_cast<size_t>(tensor.numel()) * tensor.itemsize() == tensor.storage().nbytes();
}

bool has_bytes(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  return impl->numel() == 0 || span_of(tensor).end <= impl->unsafe_storage().nbytes();
}

Span span_of(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  const auto begin = static_cast<size_t>(impl->storage_offset());
  if (impl->numel() == 0) return {begin * impl->itemsize(), begin * impl->itemsize()};
  const auto sizes = impl->sizes();
  const auto strides = impl->strides();
  size_t last = begin;
  for (size_t dim = 0; dim < sizes.size(); ++dim)
    last += static_cast<size_t>((sizes[dim] - 1) * strides[dim]);
  return {begin * impl->itemsize(), (last + 1) * impl->itemsize()};
}

Span span_of(const tape::Geometry& geometry) {
  const auto begin = static_cast<size_t>(geometry.offset) * geometry.dtype.bytes;
  return {begin, std::max(begin, static_cast<size_t>(geometry.reach()))};
}

size_t own_bytes(const c10::Storage& storage) {
  const auto& data = storage.data_ptr();
  if (data.get_deleter() != &let_go_of_window) return storage.nbytes();
  return storage.nbytes() - static_cast<const Window*>(data.get_context())->begin;
}

c10::Storage storage_as(const at::Tensor& tensor, const tape::Geometry& geometry,
                        uintptr_t address) {
  const c10::Storage& storage = tensor.storage();
  const int64_t shift = tensor.storage_offset() - geometry.offset;
  auto* start = static_cast<char*>(storage.mutable_data()) + shift * geometry.dtype.bytes;
  const bool aligned = (reinterpret_cast<uintptr_t>(start) - address) % kAlignment == 0;
  if (!aligned && tensor.is_cpu()) return copy_as(tensor, geometry, address);
  if (shift == 0) return storage;
  const Span shown = span_of(geometry);
  return window_at(start + shown.begin, shown.begin, shown.end, storage.device(), storage);
}

c10::Storage copy_as(const at::Tensor& tensor, const tape::Geometry& geometry, uintptr_t address) {
  const Span shown = span_of(geometry);
  auto storage = tensor.is_cpu() ? allocate_host_window(shown.begin, shown.end, address)
                                 : zeros(geometry.reach(), geometry.device);
  const at::AutoDispatchBelowADInplaceOrView below;
  view_over(storage, geometry).copy_(tensor);
  return storage;
}

c10::Storage copy_of(const c10::Storage& storage) {
  return copy_of(storage, {storage.nbytes() - own_bytes(storage), storage.nbytes()});
}

c10::Storage copy_of(const c10::Storage& storage, Span part) {
  if (storage.device_type() != c10::kCPU) return bytes_of(storage).clone().storage();
  const auto* bytes = static_cast<const char*>(storage.data());
  auto copy = allocate_host_window(part.begin, part.end, reinterpret_cast<uintptr_t>(bytes));
  const size_t count = part.end - part.begin;
  auto* start = static_cast<char*>(copy.mutable_data()) + part.begin;
  if (count != 0) std::memcpy(start, bytes + part.begin, count);  // both may be null
  return copy;
}

namespace {

/// The same elements as numbers whose equality is that of their bits: NaN is equal to itself, and
/// 0.0 is not -0.0. REQUIRES: an element has at most 8 bytes.
at::Tensor as_bits(const at::Tensor& tensor) {
  auto geometry = geometry_of(tensor);
  geometry.dtype = dtype_of(geometry.dtype.bytes == 8   ? c10::ScalarType::Long
                            : geometry.dtype.bytes == 4 ? c10::ScalarType::Int
                            : geometry.dtype.bytes == 2 ? c10::ScalarType::Short
                                                        : c10::ScalarType::Byte);
  geometry.conjugate = geometry.negative = false;
  return view_over(tensor.storage(), geometry);
}

}  // namespace

bool shows_the_same(const at::Tensor& a, const at::Tensor& b) {
  const bool comparable = a.is_cpu() && b.is_cpu() && has_bytes(a) && has_bytes(b) &&
                          a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
                          a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
  if (!comparable) return false;
  if (a.strides() == b.strides() && a.is_non_overlapping_and_dense())
    return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
  return a.itemsize() <= sizeof(int64_t) && at::equal(as_bits(a), as_bits(b));
}

bool same_bytes(const c10::Storage& a, const c10::Storage& b, Span part) {
  const bool readable = a.device_type() == c10::kCPU && b.device_type() == c10::kCPU;
  if (!readable || part.end > a.nbytes() || part.end > b.nbytes()) return false;
  const size_t count = part.end - part.begin;
  const auto at = [&](const c10::Storage& storage) {
    return static_cast<const char*>(storage.data()) + part.begin;
  };
  return count == 0 || std::memcmp(at(a), at(b), count) == 0;
}

c10::Storage zeros(int64_t bytes, tape::Device device) {
  const c10::Device where(static_cast<c10::DeviceType>(device.type), device.index);
  return at::zeros({bytes}, at::TensorOptions().dtype(at::kByte).device(where)).storage();
}

}  // namespace remat::record
