#include "remat/record/memories.h"

#include <c10/core/CPUAllocator.h>
#include <torch/csrc/autograd/variable.h>

#include "remat/memory/memory.h"
#include "remat/record/arguments.h"
#include "remat/record/balance.h"
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

ParameterTest parameter_test = nullptr;

bool is_parameter(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (meta != nullptr && meta->requires_grad_) return true;
  // One that was written with a graph is a result like any other; to hold it would be a cycle.
  const bool leaf = meta == nullptr || (!meta->is_view_ && meta->grad_fn_ == nullptr);
  return leaf && parameter_test != nullptr && parameter_test(*tensor.unsafeGetTensorImpl());
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

void set_parameter_test(ParameterTest test) { parameter_test = test; }

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

BufferId Memories::see(const at::Tensor& tensor) { return see(tensor, false); }
BufferId Memories::see_again(const at::Tensor& tensor) { return see(tensor, true); }

BufferId Memories::see(const at::Tensor& tensor, bool again) {
  if (auto* parameter = parameter_of(tensor)) return see_parameter(tensor, *parameter);
  const BufferId known = find(tensor);
  if (known == kNone) return meet(tensor);
  check(known, tensor, again);
  return known;
}

bool Memories::knows(const at::Tensor& tensor) const {
  return parameter_of(tensor) != nullptr || by_storage_.count(storage_of(tensor)) != 0;
}

/// The buffer that has the tensor's bytes: a parameter's where it has all of them, so that a write
/// through `.data` or detach() is a write to the parameter. kNone where none is known.
BufferId Memories::find(const at::Tensor& tensor) const {
  const auto found = by_storage_.find(storage_of(tensor));
  if (found == by_storage_.end()) return kNone;
  const Memory& first = recording_->memories[found->second];
  const bool alone = first.next == kNone && !first.is_parameter();
  // Another storage over the buffer's memory: its bytes are counted from elsewhere.
  const bool alias = first.storage._unsafe_get_target() != storage_of(tensor);
  if (alone || alias) return found->second;
  const Span shown = span_of(tensor);
  BufferId whole = kNone;
  BufferId parameters = kNone;
  for (BufferId buffer = found->second; buffer != kNone;
       buffer = recording_->memories[buffer].next) {
    const Memory& memory = recording_->memories[buffer];
    if (!memory.is_parameter()) whole = buffer;
    if (memory.is_parameter() && memory.window.contains(shown)) parameters = buffer;
  }
  // A storage that operators made is theirs, whoever borrows it for a parameter (FSDP's gathers).
  const bool made = whole != kNone && !recording_->memories[whole].met;
  return made || parameters == kNone ? whole : parameters;
}

void Memories::enter(const c10::StorageImpl* storage, BufferId buffer) {
  const auto [place, is_first] = by_storage_.emplace(storage, buffer);
  if (is_first) return;
  recording_->memories[buffer].next = std::exchange(place->second, buffer);
}

std::vector<BufferId> Memories::overlapped(BufferId buffer, const at::Tensor& tensor) const {
  return others(buffer, tensor, true);
}

std::vector<BufferId> Memories::beside(BufferId buffer, const at::Tensor& tensor) const {
  return others(buffer, tensor, false);
}

std::vector<BufferId> Memories::others(BufferId buffer, const at::Tensor& tensor,
                                       bool overlapped) const {
  std::vector<BufferId> found;
  const auto head = by_storage_.find(storage_of(tensor));
  if (head == by_storage_.end() || recording_->memories[head->second].next == kNone) return found;
  const Span shown = span_of(tensor);
  for (BufferId other = head->second; other != kNone; other = recording_->memories[other].next) {
    const bool overlaps = recording_->memories[other].window.overlaps(shown);
    if (other != buffer && overlaps == overlapped) found.push_back(other);
  }
  return found;
}

void Memories::check(BufferId buffer, const at::Tensor& tensor, bool again) {
  Memory& memory = recording_->memories[buffer];
  const c10::StorageImpl& storage = *storage_of(tensor);
  // The bytes of a parameter may lie elsewhere each time it is gathered.
  const bool stays = memory.is_parameter() || is_displaced(buffer, tensor);
  const bool moved = !stays && (memory.data != storage.data() || memory.bytes != storage.nbytes());
  if (!memory.witness(tensor) || moved) {
    lose(buffer);
    memory.refresh(storage);
  }
  if (!again && !memory.is_parameter()) check_bytes(buffer);
}

/// Notices what was written through a pointer, which moves no counter.
void Memories::check_bytes(BufferId buffer) {
  Memory& memory = recording_->memories[buffer];
  if (memory.birth && memory.birth->value != memory.current) memory.birth.reset();
  const auto own = c10::Storage(memory.storage.lock());
  if (!own) return;
  memory.exposed = memory.exposed || (memory.resizable && !own.resizable());
  const Held* held = recording_->find_held(memory.current);
  const bool copied = held != nullptr && held->why == Held::Why::copy;
  const bool looked_at = memory.birth || memory.exposed || copied;
  if (looked_at && was_written_through_a_pointer(memory, own)) lose(buffer);
}

bool Memories::was_written_through_a_pointer(const Memory& memory, const c10::Storage& now) const {
  const bool made = recording_->tape.value(memory.current).producer != kNone;
  if (memory.exposed && made) return true;  // nothing is left to compare with
  if (memory.birth) return whole_hash(*now.unsafeGetStorageImpl()) != memory.birth->hash;
  const Held* held = recording_->find_held(memory.current);
  if (held == nullptr) return false;
  if (held->why == Held::Why::copy) return !same_bytes(held->storage, now, held->shown);
  return held->seen && held->seen->hash != 0 && !is_as_read(*held);
}

BufferId Memories::see_parameter(const at::Tensor& tensor, c10::TensorImpl& parameter) {
  const auto found = by_parameter_.find(&parameter);
  if (found == by_parameter_.end()) {
    const BufferId made = made_here(parameter);
    if (made == kNone) return add_parameter(tensor, parameter);
    check(made, tensor, false);
    return made;
  }
  Memory& memory = recording_->memories[found->second];
  if (!memory.witness(tensor)) {
    if (!is_gathered_again(memory, tensor)) lose(found->second);
    memory.refresh(*storage_of(tensor));
  }
  return found->second;
}

/// The buffer of a leaf that the function itself made by operators. Not of a parameter that sharded
/// training filled with them.
BufferId Memories::made_here(const c10::TensorImpl& leaf) const {
  const bool is_declared = parameter_test != nullptr && parameter_test(leaf);
  if (is_declared && may_be_sharded()) return kNone;
  const auto known = by_storage_.find(leaf.unsafe_storage().unsafeGetStorageImpl());
  if (known == by_storage_.end()) return kNone;
  const Memory& memory = recording_->memories[known->second];
  return memory.met || memory.is_parameter() ? kNone : known->second;
}

BufferId Memories::add_parameter(const at::Tensor& tensor, c10::TensorImpl& parameter) {
  const auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
  const BufferId buffer = recording_->tape.add_buffer(bytes);
  Memory& memory = recording_->memories.emplace_back(weakly(tensor));
  auto self = c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(&parameter);
  memory.window = span_of(at::Tensor(self));
  memory.parameter = c10::weak_intrusive_ptr<c10::TensorImpl>(self);
  memory.witness(tensor);
  memory.refresh(*storage_of(tensor));
  enter(storage_of(tensor), buffer);
  by_parameter_.emplace(&parameter, buffer);
  lose(buffer);
  return buffer;
}

BufferId Memories::meet(const at::Tensor& tensor) {
  const c10::StorageImpl& storage = *storage_of(tensor);
  if (is_foreign(storage)) {
    const BufferId owner = overlapping(storage);
    if (owner != kNone) {
      aliases_.push_back(weakly(tensor));
      by_storage_.emplace(&storage, owner);
      recording_->memories[owner].exposed = true;
      const Held* held = recording_->find_held(recording_->memories[owner].current);
      if (held == nullptr || !is_as_read(*held)) lose(owner);
      return owner;
    }
  }
  const BufferId buffer = adopt(tensor);
  recording_->memories[buffer].met = true;
  recording_->memories[buffer].exposed = !storage.resizable();
  lose(buffer);
  return buffer;
}

BufferId Memories::overlapping(const c10::StorageImpl& storage) const {
  const auto* begin = static_cast<const char*>(storage.data());
  const auto* end = begin + storage.nbytes();
  for (BufferId buffer = 0; buffer < recording_->memories.size(); ++buffer) {
    const Memory& memory = recording_->memories[buffer];
    const auto* first = static_cast<const char*>(memory.data) + memory.window.begin;
    const auto* last =
        static_cast<const char*>(memory.data) + std::min(memory.bytes, memory.window.end);
    if (memory.storage.use_count() > 0 && first < end && begin < last) return buffer;
  }
  return kNone;
}

/// True iff the bytes are those that were read, as far as samples tell.
bool Memories::is_as_read(const Held& held) {
  if (!held.seen || held.seen->hash == 0) return false;
  const auto shown =
      held.parameter.defined() ? held.parameter : view_over(held.storage, held.seen->geometry);
  return has_bytes(shown) && spot_hash(shown) == held.seen->hash;
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
  memory.resizable = storage.resizable();
  enter(&storage, buffer);
  return buffer;
}

void Memories::moved_to(ValueId value, const at::Tensor& tensor) {
  const BufferId buffer = recording_->tape.value(value).buffer;
  Memory& memory = recording_->memories[buffer];
  const bool gone = memory.storage.use_count() == 0 && !memory.is_parameter();
  const bool whole = tensor.storage().nbytes() == memory.bytes;
  if (memory.current != value || !gone || !whole || knows(tensor)) return;
  const auto known = by_storage_.find(memory.storage._unsafe_get_target());
  const bool alone = known != by_storage_.end() && known->second == buffer && memory.next == kNone;
  if (!alone) return;
  by_storage_.erase(known);  // the address may be another's once nobody refers to it
  memory.storage = weakly(tensor);
  memory.witnesses.clear();
  memory.witness(tensor);
  memory.refresh(*storage_of(tensor));
  enter(storage_of(tensor), buffer);
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

void Memories::note_resizable(BufferId buffer) {
  Memory& memory = recording_->memories[buffer];
  if (const auto storage = memory.storage.lock()) memory.resizable = storage->resizable();
}

void Memories::count_without_a_write(const at::Tensor& tensor) {
  const BufferId buffer = find(tensor);
  if (buffer == kNone) return;
  recording_->memories[buffer].count_is_due = true;
  count_is_done(tensor);
}

void Memories::count_is_done(const at::Tensor& tensor) {
  recording_->memories[see_again(tensor)].count_is_due = false;
}

void Memories::overwritten(BufferId buffer) {
  lose(buffer);
  refresh(buffer);
}

/// A parameter that is filled again with what it held is no new value. Of a parameter that had been
/// freed before nothing is left but samples.
void Memories::refilled(BufferId buffer, const at::Tensor& tensor, const Held* before,
                        const Held* copy) {
  const bool whole = before != nullptr && before->parameter.defined() &&
                     geometry_of(tensor) == before->seen->geometry;
  const bool same_again =
      whole &&
      (copy != nullptr ? shows_the_same(view_over(copy->storage, before->seen->geometry), tensor)
                       : spot_hash(tensor) == before->seen->hash);
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
    recording_->memories[buffer].next = kNone;
    // What it held was wanted by nobody; it holds something all the same.
    if (recording_->memories[buffer].current == kNone) lose(buffer);
  }
  for (BufferId buffer = 0; buffer < recording_->memories.size(); ++buffer) {
    const Memory& memory = recording_->memories[buffer];
    if (memory.is_parameter()) by_parameter_.emplace(memory.parameter._unsafe_get_target(), buffer);
    const auto* storage = memory.storage._unsafe_get_target();
    if (storage != nullptr) enter(storage, buffer);
  }
  // Foreign storages over an owner's memory are met, and recognized, again.
  aliases_.clear();
}

}  // namespace remat::record
