#include "remat/record/memories.h"

#include <c10/core/CPUAllocator.h>
#include <torch/csrc/autograd/variable.h>

#include "remat/memory/memory.h"
#include "remat/record/arguments.h"
#include "remat/record/spot.h"
#include "remat/record/view.h"

namespace remat::record {

using tape::BufferId;
using tape::kNone;
using tape::ValueId;

namespace {

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

c10::weak_intrusive_ptr<c10::StorageImpl> weakly(const at::Tensor& tensor) {
  return c10::weak_intrusive_ptr<c10::StorageImpl>(
      tensor.unsafeGetTensorImpl()->unsafe_storage().getWeakStorageImpl());
}

/// True iff the memory came from somewhere else than torch's allocator: numpy, DLPack, a mapped
/// file.
bool is_foreign(const c10::StorageImpl& storage) {
  return storage.device_type() == c10::kCPU && storage.data() != nullptr &&
         !memory::is_allocator_deleter(storage.data_ptr().get_deleter());
}

ParameterTest frozen_parameter_test = nullptr;

bool is_parameter(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (meta != nullptr && meta->requires_grad_) return true;
  // One that was written with a graph is a result like any other; to hold it would be a cycle.
  const bool leaf = meta == nullptr || (!meta->is_view_ && meta->grad_fn_ == nullptr);
  return leaf && frozen_parameter_test != nullptr &&
         frozen_parameter_test(*tensor.unsafeGetTensorImpl());
}

/// Clears a map but keeps its table for the next region, unless a large region made it large:
/// clearing takes time in proportion to the table.
template <typename Map>
void empty(Map& map) {
  constexpr size_t kSmallTable = 128;
  if (map.bucket_count() > kSmallTable) {
    map = Map();
  } else {
    map.clear();
  }
}

}  // namespace

void set_parameter_test(ParameterTest test) { frozen_parameter_test = test; }

c10::TensorImpl* parameter_of(const at::Tensor& tensor) {
  if (is_parameter(tensor)) return tensor.unsafeGetTensorImpl();
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (meta == nullptr || !meta->is_view_) return nullptr;
  const auto* view = static_cast<const torch::autograd::DifferentiableViewMeta*>(meta);
  if (!view->has_bw_view()) return nullptr;
  const auto& base = view->get_backward_view().base_;
  // A view that was taken before the parameter's storage was swapped shows the old one.
  return is_parameter(base) && storage_of(base) == storage_of(tensor) ? base.unsafeGetTensorImpl()
                                                                      : nullptr;
}

void Memories::start(Recording& recording) {
  if (recording_ != nullptr) stop();
  recording_ = &recording;
}

void Memories::stop() {
  recording_ = nullptr;
  empty(by_storage_);
  empty(by_parameter_);
  aliases_.clear();
}

BufferId Memories::see(const at::Tensor& tensor) {
  if (auto* parameter = parameter_of(tensor)) return see_parameter(tensor, *parameter);
  const auto found = by_storage_.find(storage_of(tensor));
  if (found == by_storage_.end()) return meet(tensor);
  check(found->second, tensor);
  return found->second;
}

bool Memories::knows(const at::Tensor& tensor) const {
  return parameter_of(tensor) != nullptr || by_storage_.count(storage_of(tensor)) != 0;
}

void Memories::check(BufferId buffer, const at::Tensor& tensor) {
  Memory& memory = recording_->memories[buffer];
  const c10::StorageImpl& storage = *storage_of(tensor);
  // The bytes of a parameter may lie elsewhere each time it is gathered.
  const bool stays = memory.is_parameter() || is_displaced(buffer, tensor);
  const bool moved = !stays && (memory.data != storage.data() || memory.bytes != storage.nbytes());
  if (!memory.witness(tensor) || moved) {
    lose(buffer);
    memory.refresh(storage);
  }
  if (!memory.is_parameter()) check_birth(memory, storage, buffer);
}

void Memories::check_birth(Memory& memory, const c10::StorageImpl& storage, BufferId buffer) {
  if (!memory.birth) return;
  if (memory.birth->value != memory.current) {
    memory.birth.reset();
  } else {
    auto strong =
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(const_cast<c10::StorageImpl*>(&storage));
    if (spot_hash(view_over(std::move(strong), memory.birth->geometry)) != memory.birth->hash)
      lose(buffer);
  }
}

BufferId Memories::see_parameter(const at::Tensor& tensor, c10::TensorImpl& parameter) {
  const auto found = by_parameter_.find(&parameter);
  const c10::StorageImpl* storage = storage_of(tensor);
  if (found != by_parameter_.end()) {
    Memory& memory = recording_->memories[found->second];
    if (!memory.witness(tensor)) {
      if (!is_gathered_again(memory, tensor)) lose(found->second);
      memory.refresh(*storage);
    }
    return found->second;
  }
  const BufferId buffer = buffer_of_parameter(tensor);
  Memory& memory = recording_->memories[buffer];
  memory.parameter = c10::weak_intrusive_ptr<c10::TensorImpl>(
      c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(&parameter));
  if (!memory.witness(tensor) || memory.current == kNone) lose(buffer);
  memory.refresh(*storage);
  by_parameter_.emplace(&parameter, buffer);
  return buffer;
}

/// The buffer that its storage is known by, so that a write through `.data` or detach() is a write
/// to the parameter; a new one where the storage is new, or is one that operators made for the
/// parameter to borrow (FSDP's gathers).
BufferId Memories::buffer_of_parameter(const at::Tensor& tensor) {
  const auto known = by_storage_.find(storage_of(tensor));
  if (known != by_storage_.end()) {
    const Memory& memory = recording_->memories[known->second];
    const bool written = recording_->tape.value(memory.current).producer != kNone;
    if (written && memory.met) lose(known->second);  // of parameters no write is recorded
    if (!written || memory.met) return known->second;
  }
  const auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
  const BufferId buffer = recording_->tape.add_buffer(bytes);
  recording_->memories.emplace_back(weakly(tensor));
  by_storage_.emplace(storage_of(tensor), buffer);
  return buffer;
}

BufferId Memories::meet(const at::Tensor& tensor) {
  const c10::StorageImpl& storage = *storage_of(tensor);
  if (is_foreign(storage)) {
    const BufferId owner = overlapping(storage);
    if (owner != kNone) {
      aliases_.push_back(weakly(tensor));
      by_storage_.emplace(&storage, owner);
      if (!is_as_read(owner)) lose(owner);
      return owner;
    }
  }
  const BufferId buffer = adopt(tensor);
  recording_->memories[buffer].met = true;
  lose(buffer);
  return buffer;
}

BufferId Memories::overlapping(const c10::StorageImpl& storage) const {
  const auto* begin = static_cast<const char*>(storage.data());
  const auto* end = begin + storage.nbytes();
  for (BufferId buffer = 0; buffer < recording_->memories.size(); ++buffer) {
    const Memory& memory = recording_->memories[buffer];
    const auto* first = static_cast<const char*>(memory.data);
    if (memory.storage.use_count() > 0 && first < end && begin < first + memory.bytes)
      return buffer;
  }
  return kNone;
}

/// True iff the buffer holds what was read of it, as far as samples tell.
bool Memories::is_as_read(BufferId buffer) const {
  const Held* held = recording_->find_held(recording_->memories[buffer].current);
  if (held == nullptr || !held->seen) return false;
  const auto shown =
      held->parameter.defined() ? held->parameter : view_over(held->storage, held->seen->geometry);
  return has_bytes(shown) && spot_hash(shown) == held->seen->hash;
}

bool Memories::is_displaced(BufferId buffer, const at::Tensor& tensor) const {
  const Memory& memory = recording_->memories[buffer];
  const c10::StorageImpl* storage = storage_of(tensor);
  if (memory.is_parameter() && parameter_of(tensor) != nullptr) return false;
  if (memory.storage._unsafe_get_target() == storage) return false;
  const auto own = memory.storage.lock();
  return own && (own->data() != storage->data() || own->nbytes() != storage->nbytes());
}

BufferId Memories::adopt(const at::Tensor& fresh) {
  const c10::StorageImpl& storage = *storage_of(fresh);
  const BufferId buffer = recording_->tape.add_buffer(static_cast<int64_t>(storage.nbytes()));
  Memory& memory = recording_->memories.emplace_back(weakly(fresh));
  memory.refresh(storage);
  memory.witness(fresh);
  by_storage_[&storage] = buffer;
  return buffer;
}

void Memories::lose(BufferId buffer) {
  const ValueId before = recording_->memories[buffer].current;
  const Held* held = before == kNone ? nullptr : recording_->find_held(before);
  const bool can_run_again = held != nullptr && recording_->tape.value(before).producer != kNone;
  if (can_run_again && held->why == Held::Why::policy) recording_->held[before].reset();
  recording_->memories[buffer].current = recording_->tape.add_source(buffer);
}

void Memories::settle(BufferId buffer, ValueId value) {
  recording_->memories[buffer].current = value;
  refresh(buffer);
}

void Memories::overwritten(BufferId buffer) {
  lose(buffer);
  refresh(buffer);
}

/// A parameter that is filled again with what it held is no new value. Samples tell, since nothing
/// is left of what was there: of a write to a part, a few rows that were changed would not show.
void Memories::refilled(BufferId buffer, const at::Tensor& tensor, const Held* before) {
  const bool same_again = before != nullptr && before->parameter.defined() &&
                          geometry_of(tensor) == before->seen->geometry &&
                          spot_hash(tensor) == before->seen->hash;
  if (!same_again) lose(buffer);
  refresh(buffer);
}

/// Filling a parameter counts as a change until the one who gathers it puts the count back.
bool Memories::is_gathered_again(const Memory& memory, const at::Tensor& tensor) const {
  const Held* held = recording_->find_held(memory.current);
  return held != nullptr && held->parameter.defined() && held->seen->version == version_of(tensor);
}

void Memories::refresh(BufferId buffer) {
  Memory& memory = recording_->memories[buffer];
  if (const auto storage = memory.storage.lock()) memory.refresh(*storage);
}

std::vector<ValueId> Memories::live_values() const {
  std::vector<ValueId> values;
  for (const Memory& memory : recording_->memories) {
    // A source that no node reads is met again when one does; to root it would be to hold it for
    // ever.
    const bool made =
        memory.current != kNone && recording_->tape.value(memory.current).producer != kNone;
    if (made && memory.storage.use_count() > 0) values.push_back(memory.current);
  }
  return values;
}

void Memories::rebuild() {
  by_storage_.clear();
  by_parameter_.clear();
  for (BufferId buffer = 0; buffer < recording_->memories.size(); ++buffer) {
    const Memory& memory = recording_->memories[buffer];
    if (memory.is_parameter()) by_parameter_.emplace(memory.parameter._unsafe_get_target(), buffer);
    if (memory.storage._unsafe_get_target() != nullptr)
      by_storage_.emplace(memory.storage._unsafe_get_target(), buffer);
  }
  // Foreign storages over an owner's memory are met, and recognized, again.
  aliases_.clear();
}

}  // namespace remat::record
