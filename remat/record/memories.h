#pragma once

#include <vector>

#include <c10/util/flat_hash_map.h>

#include "remat/record/recording.h"

namespace remat::record {

/// Finds the buffer of a tensor while a region is open, and notices at every sight what was written
/// unseen.
///
/// Identity is the storage, not the tensor: views share a buffer. Parameters are the exception,
/// they are known by tensor, since sharded training swaps their storage, and several may share one:
/// a storage then has a buffer for each of them, and one for what shows more than one of them.
class Memories {
 public:
  void start(Recording& recording);
  void stop();

  /// The buffer of a plain tensor, checked. A buffer met for the first time gets a source value.
  tape::BufferId see(const at::Tensor& tensor);
  /// The same where the running operator has just read or made it: only counters are checked.
  tape::BufferId see_again(const at::Tensor& tensor);
  /// Whether the storage belongs to a buffer already met.
  [[nodiscard]] bool knows(const at::Tensor& tensor) const;
  /// Whether the tensor's storage is another over the buffer's memory (from_numpy) that begins or
  /// ends elsewhere: what it shows of the buffer, the buffer's geometry does not say.
  [[nodiscard]] bool is_displaced(tape::BufferId buffer, const at::Tensor& tensor) const;
  /// A buffer that an operator just made.
  tape::BufferId adopt(const at::Tensor& fresh);
  /// The tensor shows the value, whose storage may be gone: then the tensor's takes its place.
  void moved_to(tape::ValueId value, const at::Tensor& tensor);
  /// Says that the buffer holds something nobody recorded from here on.
  void lose(tape::BufferId buffer);
  /// Takes the buffer's present state as expected, and `value` as what it holds.
  void settle(tape::BufferId buffer, tape::ValueId value);
  /// The same with the value it held.
  void refresh(tape::BufferId buffer);
  /// Takes it as known whether the buffer's storage can be resized: see Memory::exposed.
  void note_resizable(tape::BufferId buffer);
  /// The tensor's counter may just have moved by one without a change of its bytes.
  void count_without_a_write(const at::Tensor& tensor);
  /// The write that Memory::count_is_due speaks of has been counted, if it ever is.
  void count_is_done(const at::Tensor& tensor);
  /// Something that no replay can repeat has written the tensor.
  void overwritten(tape::BufferId buffer);
  /// It has written all of a tensor of which `before` was held; `copy`, where there is one, is what
  /// it held then.
  void refilled(tape::BufferId buffer, const at::Tensor& tensor, const Held* before,
                const Held* copy = nullptr);

  /// The other buffers that have some of the tensor's bytes.
  [[nodiscard]] std::vector<tape::BufferId> overlapped(tape::BufferId buffer,
                                                       const at::Tensor& tensor) const;

  /// The others in its storage that have none of them.
  [[nodiscard]] std::vector<tape::BufferId> beside(tape::BufferId buffer,
                                                   const at::Tensor& tensor) const;

  /// The current values of buffers that are alive.
  [[nodiscard]] std::vector<tape::ValueId> live_values() const;
  /// Buffers changed their numbers.
  void rebuild();

 private:
  tape::BufferId see(const at::Tensor& tensor, bool again);
  tape::BufferId meet(const at::Tensor& tensor);
  tape::BufferId see_parameter(const at::Tensor& tensor, c10::TensorImpl& parameter);
  tape::BufferId add_parameter(const at::Tensor& tensor, c10::TensorImpl& parameter);
  [[nodiscard]] tape::BufferId made_here(const c10::TensorImpl& leaf) const;
  [[nodiscard]] tape::BufferId find(const at::Tensor& tensor) const;
  [[nodiscard]] std::vector<tape::BufferId> others(tape::BufferId buffer, const at::Tensor& tensor,
                                                   bool overlapped) const;
  void enter(const c10::StorageImpl* storage, tape::BufferId buffer);
  [[nodiscard]] bool is_gathered_again(const Memory& memory, const at::Tensor& tensor) const;
  tape::BufferId overlapping(const c10::StorageImpl& storage) const;
  static bool is_as_read(const Held& held);
  void check(tape::BufferId buffer, const at::Tensor& tensor, bool again);
  void check_bytes(tape::BufferId buffer);
  [[nodiscard]] bool was_written_through_a_pointer(const Memory& memory,
                                                   const c10::Storage& now) const;

  Recording* recording_ = nullptr;
  /// The first buffer of each storage; Memory::next leads to the others.
  ska::flat_hash_map<const c10::StorageImpl*, tape::BufferId> by_storage_;
  ska::flat_hash_map<const c10::TensorImpl*, tape::BufferId> by_parameter_;
  /// Storages over memory that another buffer owns (from_numpy), so that their addresses stay
  /// taken.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> aliases_;
};

/// The parameter whose elements the tensor shows, itself or the base of the view: a leaf that
/// requires grad, or what the test below says. Null where there is none.
c10::TensorImpl* parameter_of(const at::Tensor& tensor);

/// Tells frozen parameters, which sharded training swaps as well, from other tensors without grad,
/// and parameters from leaves that a function makes.
/// Called without the interpreter's lock. Set once, before the first region.
using ParameterTest = bool (*)(const c10::TensorImpl& tensor);
void set_parameter_test(ParameterTest test);

}  // namespace remat::record
