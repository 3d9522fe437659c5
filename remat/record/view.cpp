#include "remat/record/view.h"

#include <array>
#include <cstring>
#include <string>

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

/// Memory for `bytes` whose address modulo 64 is `remainder`.
c10::DataPtr allocate_host(size_t bytes, size_t remainder) {
  c10::DataPtr block = c10::GetAllocator(c10::kCPU)->allocate(bytes + remainder);
  if (remainder == 0) return block;
  auto* start = static_cast<char*>(block.get());
  const auto deleter = block.get_deleter();
  void* context = block.release_context();
  return {start + remainder, context, deleter, c10::Device(c10::kCPU)};
}

c10::Storage host_copy_of(const c10::Storage& storage) {
  const size_t bytes = storage.nbytes();
  const size_t remainder = reinterpret_cast<uintptr_t>(storage.data()) % kAlignment;
  auto block = allocate_host(bytes, remainder);
  if (bytes != 0) std::memcpy(block.get(), storage.data(), bytes);  // both may be null
  return {c10::Storage::use_byte_size_t(), bytes, std::move(block), c10::GetAllocator(c10::kCPU),
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
  return static_cast<int64_t>(tensor.storage().nbytes()) >= geometry_of(tensor).reach();
}

c10::Storage storage_as(const at::Tensor& tensor, const tape::Geometry& geometry,
                        uintptr_t address) {
  const c10::Storage& storage = tensor.storage();
  const int64_t shift = tensor.storage_offset() - geometry.offset;
  auto* start = static_cast<char*>(storage.mutable_data()) + shift * geometry.dtype.bytes;
  const bool aligned = (reinterpret_cast<uintptr_t>(start) - address) % kAlignment == 0;
  if (!aligned && tensor.is_cpu()) return copy_as(tensor, geometry, address);
  if (shift == 0) return storage;
  const auto let_go = [](void* owner) { delete static_cast<c10::Storage*>(owner); };
  c10::DataPtr window(start, new c10::Storage(storage), let_go, storage.device());
  return {c10::Storage::use_byte_size_t(), static_cast<size_t>(geometry.reach()), std::move(window),
          nullptr, false};
}

c10::Storage copy_as(const at::Tensor& tensor, const tape::Geometry& geometry, uintptr_t address) {
  const auto bytes = static_cast<size_t>(geometry.reach());
  auto storage = tensor.is_cpu() ? c10::Storage(c10::Storage::use_byte_size_t(), bytes,
                                                allocate_host(bytes, address % kAlignment),
                                                c10::GetAllocator(c10::kCPU), false)
                                 : zeros(geometry.reach(), geometry.device);
  const at::AutoDispatchBelowADInplaceOrView below;
  view_over(storage, geometry).copy_(tensor);
  return storage;
}

c10::Storage copy_of(const c10::Storage& storage) {
  if (storage.device_type() == c10::kCPU) return host_copy_of(storage);
  return bytes_of(storage).clone().storage();
}

c10::Storage zeros(int64_t bytes, tape::Device device) {
  const c10::Device where(static_cast<c10::DeviceType>(device.type), device.index);
  return at::zeros({bytes}, at::TensorOptions().dtype(at::kByte).device(where)).storage();
}

}  // namespace remat::record
