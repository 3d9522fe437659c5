#pragma once

#include <vector>

#include <c10/util/flat_hash_map.h>

#include "remat/record/recording.h"

namespace remat::record {

/// Finds the buffer of a tensor while a region is open, and notices at every sight what was written
/// unseen.
///
/// Identity is the storage, not the tensor: views share a buffer. Parameters are the exception,
/// they are known by tensor, since sharded training swaps their storage.
class Memories {
 public:
  void start(Recording& recording);
  void stop();

  /// The buffer of a plain tensor, checked. A buffer met for the first time gets a source value.
  tape::BufferId see(const at::Tensor& tensor);
  /// Whether the storage belongs to a buffer already met.
  [[nodiscard]] bool knows(const at::Tensor& tensor) const;
  /// A buffer that an operator just made.
  tape::BufferId adopt(const at::Tensor& fresh);
  /// Says that the buffer holds something nobody recorded from here on.
  void lose(tape::BufferId buffer);
  /// Takes the buffer's present state as expected, and `value` as what it holds.
  void settle(tape::BufferId buffer, tape::ValueId value);
  /// The same with the value it held.
  void refresh(tape::BufferId buffer);

  /// The current values of buffers that are alive.
  [[nodiscard]] std::vector<tape::ValueId> live_values() const;
  /// Buffers changed their numbers.
  void rebuild();

 private:
  tape::BufferId meet(const at::Tensor& tensor);
  tape::BufferId see_parameter(const at::Tensor& tensor, c10::TensorImpl& parameter);
  tape::BufferId buffer_of_parameter(const at::Tensor& tensor);
  tape::BufferId overlapping(const c10::StorageImpl& storage) const;
  void check(tape::BufferId buffer, const at::Tensor& tensor);
  void check_birth(Memory& memory, const c10::StorageImpl& storage, tape::BufferId buffer);

  Recording* recording_ = nullptr;
  ska::flat_hash_map<const c10::StorageImpl*, tape::BufferId> by_storage_;
  ska::flat_hash_map<const c10::TensorImpl*, tape::BufferId> by_parameter_;
  /// Storages over memory that another buffer owns (from_numpy), so that their addresses stay
  /// taken.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> aliases_;
};

/// The leaf that requires grad whose elements the tensor shows: itself, or the base of the view.
/// Null where there is none.
c10::TensorImpl* parameter_of(const at::Tensor& tensor);

}  // namespace remat::record
