#include "remat/record/recording.h"

#include <algorithm>
#include <utility>

#include <c10/util/Exception.h>

#include "remat/record/fork.h"
#include "remat/record/gather.h"
#include "remat/record/spot.h"
#include "remat/record/view.h"
#include "remat/record/waiting.h"
#include "remat/tape/slice.h"

namespace remat::record {

using tape::kNone;
using tape::NodeId;
using tape::ValueId;

namespace {

/// Guards the list of recordings that are alive.
std::mutex& list_mutex() {
  static auto& mutex = immortal_mutex();
  return mutex;
}

Recording* first_recording = nullptr;

constexpr size_t kSmall = 64 * 1024;

}  // namespace

bool is_small(const c10::Storage& storage) {
  return storage.nbytes() <= kSmall && storage.device_type() == c10::kCPU;
}

bool is_small(const Held& held) {
  if (!held.parameter.defined()) return is_small(held.storage);
  return held.parameter.is_cpu() && span_of(held.seen->geometry).bytes() <= kSmall;
}

bool is_trained(const Held& held) {
  return held.parameter.defined() && held.parameter.requires_grad() && held.read_with_grad;
}

std::unique_ptr<Held> held_copy(c10::Storage storage, Span shown) {
  auto copy = std::make_unique<Held>();
  copy->why = Held::Why::copy;
  copy->storage = std::move(storage);
  copy->shown = shown;
  return copy;
}

Recording::Recording() {
  memories.reserve(tape::Tape::kFewValues);
  held.reserve(tape::Tape::kFewValues);
  const std::lock_guard lock(list_mutex());
  next_ = first_recording;
  if (next_ != nullptr) next_->previous_ = this;
  first_recording = this;
}

Recording::~Recording() {
  const std::lock_guard lock(list_mutex());
  if (next_ != nullptr) next_->previous_ = previous_;
  (previous_ != nullptr ? previous_->next_ : first_recording) = next_;
}

std::unique_lock<std::recursive_mutex> Recording::lock() { return lock_patiently(mutex); }

std::vector<std::shared_ptr<Recording>> Recording::all() {
  std::vector<std::shared_ptr<Recording>> alive;
  const std::lock_guard lock(list_mutex());
  for (auto* recording = first_recording; recording != nullptr; recording = recording->next_) {
    if (auto shared = recording->weak_from_this().lock()) alive.push_back(std::move(shared));
  }
  return alive;
}

int64_t Recording::total_held_bytes() {
  int64_t bytes = 0;
  for (const auto& recording : all()) bytes += recording->held_bytes();
  return bytes;
}

void Recording::copy_before_a_step() {
  SharedCopies copies;
  std::vector<std::unique_ptr<Held>> freed;
  for (const auto& recording : all()) {
    const auto lock = recording->lock();
    if (recording->open || recording->unreleased().empty()) continue;
    for (ValueId value = 0; value < recording->held.size(); ++value) {
      const bool saved = recording->memories[recording->tape.value(value).buffer].is_saved(value);
      if (!recording->is_trained(value) || saved || !is_small(*recording->held[value])) continue;
      if (auto copy = recording->copy_of_parameter(value, copies))
        freed.push_back(std::exchange(recording->held[value], std::move(copy)));
    }
  }
}

void Recording::announce_backward() {
  std::function<void()> begins;
  {
    const auto held = lock();
    begins = std::exchange(on_backward, nullptr);
  }
  if (begins) begins();
}

std::optional<c10::Storage> Recording::original(ValueId value) {
  const Memory& memory = memories[tape.value(value).buffer];
  if (memory.current != value || !tape.value(value).defined) return std::nullopt;
  auto storage = memory.storage.lock();
  if (!storage || !memory.is_intact(*storage)) return std::nullopt;
  return c10::Storage(std::move(storage));
}

std::optional<c10::Storage> Recording::at_hand(ValueId value) {
  Held* entry = find_held(value);
  return entry == nullptr ? original(value) : held_storage(value, *entry);
}

void Recording::hold(ValueId value, Held entry) {
  if (value >= held.size()) held.resize(value + 1);
  held[value] = std::make_unique<Held>(std::move(entry));
}

std::optional<c10::Storage> Recording::held_storage(ValueId value, Held& entry) {
  if (entry.packed) unpack(entry);
  if (entry.parameter.defined()) return parameter_storage(value, entry);
  const bool intact = is_intact(value, entry);
  const bool can_run_again = tape.value(value).producer != kNone;
  if (!intact && can_run_again) return std::nullopt;
  if (!intact) report_changed(value);
  const uint64_t seen = entry.seen ? entry.seen->hash : 0;
  if (seen != 0 && spot_hash(view_over(entry.storage, entry.seen->geometry)) != seen)
    report_changed(value);
  return entry.storage;
}

/// Asks the user's hooks for the value, and holds it from here on.
void Recording::unpack(Held& entry) {
  const auto tensor = entry.packed->call_unpack_hook();
  const auto& [geometry, hash, address, version] = *entry.seen;
  const bool fits = tensor.defined() && tensor.numel() == geometry.elements() &&
                    dtype_of(tensor.scalar_type()) == geometry.dtype;
  TORCH_CHECK(fits, "remat: saved_tensors_hooks around the region gave back ", tensor.toString(),
              tensor.sizes(), " for ", tape::to_text(geometry),
              ", from which backward recomputes. Its unpack must return what pack was given.");
  const auto here = tensor.reshape(c10::IntArrayRef(geometry.sizes(), geometry.dimensions()));
  auto laid_out = geometry_of(here);
  laid_out.offset = geometry.offset;
  entry.packed.reset();
  // Hooks may use the tensor for the next that they are asked for.
  const size_t same = here.is_same(tensor) ? 1 : 0;
  const bool theirs = tensor.use_count() > 1 + same || tensor.storage().use_count() > 2 - same;
  entry.storage = laid_out == geometry && !theirs ? storage_as(here, geometry, address)
                                                  : copy_as(here, geometry, address);
}

bool Recording::is_packed(ValueId value) const {
  const Held* entry = find_held(value);
  return entry != nullptr && entry->packed != nullptr;
}

namespace {

/// What is shown of the storage, as it was read first or, where others read other parts, as a row.
tape::Geometry geometry_to_pack(const Held& entry) {
  auto geometry = entry.seen->geometry;
  const Span shown = entry.why == Held::Why::source ? entry.shown : Span{0, entry.storage.nbytes()};
  if (span_of(geometry) == shown) return geometry;
  const auto size = static_cast<size_t>(geometry.dtype.bytes);
  if (shown.begin % size != 0 || shown.bytes() % size != 0)
    geometry.dtype = dtype_of(c10::ScalarType::Byte);
  const auto unit = static_cast<int64_t>(geometry.dtype.bytes);
  geometry.conjugate = geometry.negative = false;
  geometry.offset = static_cast<int64_t>(shown.begin) / unit;
  geometry.extents = {static_cast<int64_t>(shown.bytes()) / unit, 1};
  return geometry;
}

}  // namespace

void Recording::pack(
    const std::function<std::unique_ptr<torch::autograd::SavedVariableHooks>()>& hooks,
    std::vector<std::unique_ptr<Held>>& freed) {
  for (ValueId value = 0; value < held.size(); ++value) {
    const Held* entry = held[value].get();
    const bool is_given = entry != nullptr && entry->storage && entry->seen &&
                          entry->why != Held::Why::copy && is_intact(value, *entry);
    if (!is_given) continue;
    const auto geometry = geometry_to_pack(*entry);
    auto packed = hooks();
    if (!packed) return;
    packed->call_pack_hook(view_over(entry->storage, geometry));
    auto given = held_copy(c10::Storage(), span_of(geometry));
    given->seen = Held::Seen{geometry, 0, reinterpret_cast<uintptr_t>(entry->storage.data()), 0};
    given->packed = std::move(packed);
    const auto locked = lock();
    freed.push_back(std::exchange(held[value], std::move(given)));
  }
}

/// Whether the held storage is as it was when the value was made or read, as far as counters tell.
bool Recording::is_intact(ValueId value, const Held& entry) const {
  if (entry.packed) return true;
  if (entry.why == Held::Why::copy)
    return !entry.watch.saw_a_write() && entry.storage.nbytes() >= entry.shown.end;
  const Memory& memory = memories[tape.value(value).buffer];
  return memory.current == value && memory.is_intact(*entry.storage.unsafeGetStorageImpl());
}

const c10::VariableVersion& Recording::counter_of(ValueId value) {
  Held* entry = find_held(value);
  if (entry != nullptr && entry->why == Held::Why::copy) return entry->watch.counter();
  return memories[tape.value(value).buffer].watched_counter();
}

/// Where the parameter lies now: sharded training may have moved it since it was read.
c10::Storage Recording::parameter_storage(ValueId value, const Held& entry) const {
  TORCH_CHECK(!is_absent(value),
              "remat: a parameter that backward needs was freed while it was "
              "gathered (please report this)");
  const Memory& memory = memories[tape.value(value).buffer];
  if (memory.current != value || !memory.counters_hold()) report_changed(value);
  auto storage = storage_as(entry.parameter, entry.seen->geometry, entry.seen->address);
  if (spot_hash(view_over(storage, entry.seen->geometry)) != entry.seen->hash)
    report_changed(value);
  return storage;
}

bool Recording::is_parameter(ValueId value) const {
  const Held* entry = find_held(value);
  return entry != nullptr && entry->parameter.defined();
}

bool Recording::is_absent(ValueId value) const {
  if (!is_parameter(value)) return false;
  const Held* entry = find_held(value);
  auto now = geometry_of(entry->parameter);
  now.offset = entry->seen->geometry.offset;
  return !(now == entry->seen->geometry && has_bytes(entry->parameter));
}

std::shared_ptr<void> Recording::gather(ValueId value) const {
  const Held& entry = *find_held(value);
  auto filled = record::gather(entry.parameter);
  TORCH_CHECK(!is_absent(value), "remat: a parameter ", tape::to_text(entry.seen->geometry),
              " has no storage when backward recomputes from it (it is sharded and was freed after "
              "use), and ",
              filled ? "gathering it did not bring it back" : "nobody gathered it",
              ". Say how with remat.gather, keep it gathered until backward, or keep what is "
              "computed from it with a policy.");
  return filled;
}

void Recording::report_changed(ValueId value) const {
  for (NodeId id = 0; id < tape.nodes(); ++id) {
    const auto reads = tape.reads(id);
    for (size_t i = 0; i < reads.size(); ++i) {
      if (reads[i] != value) continue;
      TORCH_CHECK(
          false,
          "remat: one of the variables needed for gradient computation has been modified by an "
          "inplace operation: ",
          "a tensor ", tape::to_text(tape.node(id).call->reads[i]), " that is read by ",
          tape.node(id).call->op,
          " in the region was changed after the forward pass, so the values that backward needs "
          "cannot be "
          "recomputed. Change it after backward, give the region a clone, or keep the result of ",
          tape.node(id).call->op,
          " with a policy (remat.keep_ops). Under autocast this may be a weight that an optimizer "
          "step changed before backward.");
    }
  }
  TORCH_CHECK(false,
              "remat: one of the variables needed for gradient computation has been modified by an "
              "inplace operation");
}

std::vector<ValueId> Recording::unreleased() const {
  std::vector<ValueId> values;
  for (tape::SavedId id = 0; id < saved.size(); ++id) {
    if (!saved[id].released.load(std::memory_order_acquire))
      values.push_back(tape.saved()[id].value);
  }
  return values;
}

bool Recording::is_kept(ValueId value) const {
  const Held* entry = find_held(value);
  return entry != nullptr && entry->why != Held::Why::source && !entry->kept_for_now &&
         is_intact(value, *entry);
}

void Recording::let_go(std::vector<std::unique_ptr<Held>>& freed) {
  const size_t wanted_at_most = saved.size() - released_;
  ++released_;
  if (open || ++released_since_ * 4 < wanted_at_most) return;
  released_since_ = 0;
  drop_unneeded(
      unreleased(), [&](ValueId value) { return is_kept(value); }, freed);
}

void Recording::drop_unneeded(std::span<const ValueId> wanted, const tape::AtHand& at_hand,
                              std::vector<std::unique_ptr<Held>>& freed) {
  std::vector<bool> needed(held.size(), false);
  const auto need = [&](std::span<const ValueId> values) {
    for (const ValueId value : values) {
      if (value < needed.size()) needed[value] = true;
    }
  };
  need(wanted);
  for (const NodeId id : tape::slice(tape, wanted, at_hand)) need(tape.reads(id));
  for (ValueId value = 0; value < held.size(); ++value) {
    if (held[value] && !needed[value]) freed.push_back(std::move(held[value]));
  }
}

std::optional<tape::Tape::Renumbering> Recording::prune(const std::vector<ValueId>& roots,
                                                        std::vector<std::unique_ptr<Held>>& freed) {
  std::vector<ValueId> wanted = unreleased();
  wanted.insert(wanted.end(), roots.begin(), roots.end());
  const auto kept = [&](ValueId value) { return is_kept(value); };
  if (whole) {
    drop_unneeded(wanted, kept, freed);
    let_go_of_dead_storages();
    let_go_of_dead_tensors();
    return std::nullopt;
  }
  std::vector<bool> needed_nodes(tape.nodes(), false);
  std::vector<bool> needed_values(tape.values(), false);
  const auto need = [&](std::span<const ValueId> values) {
    for (const ValueId value : values) {
      if (value != kNone) needed_values[value] = true;
    }
  };
  need(wanted);
  for (const NodeId id : tape::slice(tape, wanted, kept)) {
    needed_nodes[id] = true;
    need(tape.reads(id));
    need(tape.writes(id));
    need(tape.results(id));
  }
  const auto all = [](const std::vector<bool>& flags) {
    return std::find(flags.begin(), flags.end(), false) == flags.end();
  };
  std::optional<tape::Tape::Renumbering> left;
  if (!all(needed_nodes) || !all(needed_values)) {  // seldom so in a region of a few operators
    left = tape.prune(needed_nodes, needed_values);
    keep_only(*left, freed);
    if (!draws.empty()) drop_unused_draws();
    if (source) source->renumber(left->values);
  }
  let_go_of_dead_storages();
  let_go_of_dead_tensors();
  return left;
}

void Recording::copy_shared(SharedCopies& copies, std::vector<std::unique_ptr<Held>>& freed) {
  for (ValueId value = 0; value < held.size(); ++value) {
    if (!held[value]) continue;
    auto other = held[value]->why == Held::Why::copy ? original_of_copy(value)
                                                     : copy_if_it_may_change(value, copies);
    if (other) freed.push_back(std::exchange(held[value], std::move(other)));
  }
}

std::unique_ptr<Held> Recording::original_of_copy(ValueId value) const {
  const Held& entry = *held[value];
  const Memory& memory = memories[tape.value(value).buffer];
  auto original = c10::Storage(entry.original.lock());
  if (!original || memory.current != value || !memory.is_intact(*original.unsafeGetStorageImpl()))
    return nullptr;
  const bool saved = memory.is_saved(value) && !memory.exposed;
  // Nobody else has it, but for this reference: then to hold a small part is less.
  const bool only_ours = original.use_count() == 1;
  const bool part = 2 * entry.shown.bytes() <= original.nbytes();
  if (!saved && (!only_ours || part)) return nullptr;
  if (!same_bytes(entry.storage, original, entry.shown)) return nullptr;
  auto as_it_is = std::make_unique<Held>();
  as_it_is->shown = entry.shown;
  as_it_is->seen = entry.seen;
  as_it_is->storage = std::move(original);
  return as_it_is;
}

std::optional<Given> Recording::give_away(ValueId value) {
  const Held& entry = *held[value];
  if (!is_intact(value, entry)) return std::nullopt;
  Given given{entry.storage, counter_of(value)};
  auto copy = held_copy(copy_of(entry.storage), {0, entry.storage.nbytes()});
  copy->seen = entry.seen;
  held[value] = std::move(copy);
  return given;
}

std::unique_ptr<Held> Recording::let_go_of_copy(ValueId value) {
  const Held* entry = find_held(value);
  if (entry == nullptr || entry->why != Held::Why::copy) return nullptr;
  auto original = original_of_copy(value);
  return original ? std::exchange(held[value], std::move(original)) : nullptr;
}

/// Null where the value is held as it is.
std::unique_ptr<Held> Recording::copy_if_it_may_change(ValueId value, SharedCopies& copies) const {
  const Held& entry = *held[value];
  const Memory& memory = memories[tape.value(value).buffer];
  const bool can_run_again = tape.value(value).producer != kNone;
  const bool saved = !entry.saved_by.expired() || memory.is_saved(value);
  if (entry.why == Held::Why::copy || can_run_again || saved || !is_small(entry)) return nullptr;
  if (is_trained(value)) return nullptr;  // changes when an optimizer steps: copy_before_a_step
  if (entry.parameter.defined()) return copy_of_parameter(value, copies);
  if (!is_intact(value, entry)) return nullptr;
  // A backward may write what it is given: that copy is nobody else's.
  if (entry.why == Held::Why::policy || entry.may_be_given) {
    const Span all = {0, entry.storage.nbytes()};
    return entry.storage.use_count() == 1 ? nullptr : held_copy(copy_of(entry.storage), all);
  }
  const bool only_ours = entry.storage.use_count() == 1;
  if (only_ours && 2 * entry.shown.bytes() > entry.storage.nbytes()) return nullptr;
  return held_copy(copies.copy_of(entry.storage, entry.shown), entry.shown);
}

std::unique_ptr<Held> Recording::copy_of_parameter(ValueId value, SharedCopies& copies) const {
  const Held& entry = *held[value];
  const Memory& memory = memories[tape.value(value).buffer];
  const bool unchanged = memory.current == value && memory.counters_hold();
  if (!unchanged || is_absent(value)) return nullptr;
  const auto now = storage_as(entry.parameter, entry.seen->geometry, entry.seen->address);
  const Span shown = span_of(entry.seen->geometry);
  return held_copy(copies.copy_of(now, shown), shown);
}

bool Recording::is_trained(ValueId value) const {
  return is_parameter(value) && record::is_trained(*find_held(value));
}

void Recording::let_go_of_dead_storages() {
  constexpr size_t kFew = 64;  // not worth the time in a region of a few operators
  if (memories.size() <= kFew) return;
  for (Memory& memory : memories) {
    if (memory.storage.use_count() == 0) memory.let_go();
  }
}

void Recording::let_go_of_dead_tensors() {
  for (SavedState& state : saved) {
    if (state.shown.use_count() == 0) state.shown.reset();
  }
}

void Recording::keep_only(const tape::Tape::Renumbering& left,
                          std::vector<std::unique_ptr<Held>>& freed) {
  if (verification) verification->renumber(left.values);
  size_t most = 0;
  for (ValueId value = 0; value < held.size(); ++value) {
    if (!held[value]) continue;
    const ValueId now = left.values[value];
    auto entry = std::move(held[value]);
    if (now == kNone) {
      freed.push_back(std::move(entry));
    } else {
      held[now] = std::move(entry);
      most = now + 1;
    }
  }
  held.resize(most);
  size_t next = 0;
  for (tape::BufferId id = 0; id < memories.size(); ++id) {
    if (left.buffers[id] == kNone) continue;
    if (next != id) memories[next] = std::move(memories[id]);
    Memory& memory = memories[next++];
    const ValueId was = memory.current;
    memory.saved = memory.saved == kNone ? kNone : left.values[memory.saved];
    memory.current = memory.current == kNone ? kNone : left.values[memory.current];
    if (memory.birth && memory.birth->value != was) memory.birth.reset();
    if (memory.birth) memory.birth->value = memory.current;
  }
  memories.erase(memories.begin() + static_cast<ptrdiff_t>(next), memories.end());
}

void Recording::drop_unused_draws() {
  std::vector<tape::DrawId> renumbered(draws.size(), kNone);
  std::vector<Draw> used;
  for (NodeId id = 0; id < tape.nodes(); ++id) {
    const tape::DrawId draw = tape.node(id).draw;
    if (draw == kNone || renumbered[draw] != kNone) continue;
    renumbered[draw] = static_cast<tape::DrawId>(used.size());
    used.push_back(std::move(draws[draw]));
  }
  draws = std::move(used);
  tape.renumber_draws(renumbered);
}

int64_t Recording::held_bytes() {
  const auto locked = lock();
  int64_t bytes = source ? source->cached_bytes() : 0;
  for (const auto& entry : held) {
    if (entry && entry->storage) bytes += static_cast<int64_t>(own_bytes(entry->storage));
  }
  return bytes;
}

}  // namespace remat::record
