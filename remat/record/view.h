#pragma once

#include <algorithm>

#include <ATen/core/Tensor.h>

#include "remat/tape/geometry.h"

/// Writes a tape while a region is open: what ran, on which buffers, in which ambient state.
namespace remat::record {

/// What the recorder can do with a tensor.
enum class Kind : uint8_t {
  plain,    ///< strided, its bytes lie in a storage
  wrapper,  ///< a subclass or a torch.func wrapper: its operators call others on what it wraps
  opaque,  ///< sparse, quantized, nested, meta, without data: never tracked, kept as autograd keeps
           ///< it
};

Kind kind_of(const at::Tensor& tensor);

tape::DType dtype_of(c10::ScalarType type);

/// Geometry of a plain tensor.
tape::Geometry geometry_of(const at::Tensor& tensor);

/// A detached tensor of that geometry over `storage`.
at::Tensor view_over(c10::Storage storage, const tape::Geometry& geometry);

/// True iff the tensor's elements are all bytes of its storage, each once.
bool covers_storage(const at::Tensor& tensor);

/// True iff the tensor's storage holds all of its elements: that of a sharded parameter may not.
bool has_bytes(const at::Tensor& tensor);

/// Bytes of a storage, from `begin` to before `end`.
struct Span {
  size_t begin = 0;
  size_t end = 0;

  [[nodiscard]] bool overlaps(Span other) const { return begin < other.end && other.begin < end; }
  [[nodiscard]] bool contains(Span other) const { return begin <= other.begin && other.end <= end; }
  [[nodiscard]] size_t bytes() const { return end - begin; }
  friend bool operator==(Span, Span) = default;
  void widen(Span other) { *this = {std::min(begin, other.begin), std::max(end, other.end)}; }
};

/// The bytes from the first element to behind the last.
Span span_of(const tape::Geometry& geometry);
Span span_of(const at::Tensor& tensor);

/// Bytes that the storage has of its own. A copy of a part has less than its size says: what lies
/// before the part does not exist.
size_t own_bytes(const c10::Storage& storage);

/// A storage in which the tensor's elements lie as `geometry` says and as far from a multiple of 64
/// bytes as those of a storage at `address`: the tensor's own, a window on it, of which only these
/// elements may be read, or a copy. REQUIRES: the geometry differs from the tensor's in its offset
/// at most.
c10::Storage storage_as(const at::Tensor& tensor, const tape::Geometry& geometry,
                        uintptr_t address);

/// Such a copy of the elements. Takes no more memory than from the first to the last of them.
c10::Storage copy_as(const at::Tensor& tensor, const tape::Geometry& geometry, uintptr_t address);

/// A copy of the bytes that the storage has, at an address equal modulo 64: kernels choose their
/// path, and so their bits, by it.
c10::Storage copy_of(const c10::Storage& storage);

/// The same of a part, which lies where it lay; nothing else of the copy may be read.
c10::Storage copy_of(const c10::Storage& storage, Span part);

/// True iff the tensors have the same type, sizes and elements, of which all are compared. False
/// where they cannot be read from the host.
bool shows_the_same(const at::Tensor& a, const at::Tensor& b);

/// True iff both lie on the host and have that part with equal bytes.
bool same_bytes(const c10::Storage& a, const c10::Storage& b, Span part);

/// A zero-filled storage of `bytes`. Zero, since what stands for a content that does not matter
/// must not be a denormal or NaN that slows a kernel down.
c10::Storage zeros(int64_t bytes, tape::Device device);

}  // namespace remat::record
