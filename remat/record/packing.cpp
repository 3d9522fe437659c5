#include <algorithm>

#include "remat/record/arguments.h"
#include "remat/record/recorder.h"
#include "remat/record/spot.h"

// Where on the tape a tensor lies that autograd saves.

namespace remat::record {

using tape::BufferId;
using tape::kNone;
using tape::NodeId;
using tape::ValueId;

namespace {

/// What all handles that keep a value share while one of them lives.
std::shared_ptr<void> wanted_by(std::weak_ptr<void>& handles) {
  auto shared = handles.lock();
  if (!shared) handles = shared = std::make_shared<char>();
  return shared;
}

}  // namespace

void Recorder::pack(Packed& packed, const at::Tensor& tensor) {
  if (leaf_ == Leaf::none) return packed.settle(locate(tensor));
  Pending pending{&packed, tensor, version_of(tensor)};
  if (leaf_ == Leaf::recorded && !written_.empty() && !failure_) note_before(pending);
  // Hooks around the region get what is about to be overwritten while it is there.
  const bool goes = pending.before != kNone && recording_->hooked;
  if (goes && recording_->tape.value(pending.before).producer == kNone)
    return packed.settle(Location::kept(Reason::input));
  pending_.push_back(std::move(pending));
}

/// Autograd saves what an in-place operator is about to change while it is still there: the tensor
/// itself, or a private copy of it. All bytes of a copy are compared, since several tensors may be
/// written at once.
void Recorder::note_before(Pending& pending) const {
  if (kind_of(pending.tensor) != Kind::plain) return;
  const Pause pause;
  const auto lock = recording_->lock();
  const bool copy = !memories_.knows(pending.tensor);
  const auto is_written = [&](const Written& written) {
    const bool unchanged = version_of(written.tensor) == reads_[written.read].version;
    if (!copy) return unchanged && written.tensor.storage().is_alias_of(pending.tensor.storage());
    return unchanged && shows_the_same(pending.tensor, written.tensor);
  };
  const auto found = std::find_if(written_.begin(), written_.end(), is_written);
  if (found == written_.end()) return;
  pending.before = reads_[found->read].value;
  pending.shown = copy ? found->tensor : pending.tensor;
  pending.spot = spot_hash(pending.tensor);
}

void Recorder::withdraw(const Packed& packed) {
  std::erase_if(pending_, [&](const Pending& pending) { return pending.packed == &packed; });
}

void Recorder::settle_pending() {
  while (!pending_.empty()) {
    const Pending pending = std::move(pending_.back());
    pending_.pop_back();
    Location location;
    try {
      location = locate(pending);
    } catch (...) {
      fail(std::current_exception());
      location.reason = Reason::suspended;
    }
    try {
      pending.packed->settle(std::move(location));
    } catch (...) {  // hooks of the user's around the region
      fail(std::current_exception());
    }
  }
}

Location Recorder::locate(const at::Tensor& tensor) {
  if (failure_ || abandoned_) return Location::kept(Reason::suspended);
  if (kind_of(tensor) != Kind::plain) return Location::kept(Reason::opaque);
  const Pause pause;
  const auto lock = recording_->lock();
  if (parameter_of(tensor) != nullptr) return Location::kept(Reason::parameter);
  if (!memories_.knows(tensor))
    return Location::kept(leaf_ == Leaf::none ? Reason::input : Reason::unknown);
  const BufferId buffer = leaf_ == Leaf::none ? memories_.see(tensor) : memories_.see_again(tensor);
  if (memories_.is_displaced(buffer, tensor)) return Location::kept(Reason::input);
  const ValueId value = recording_->memories[buffer].current;
  Location location = at_value(tensor, value);
  if (recording_->verification && location.saved != kNone)
    recording_->verification->note_saved(location.saved, value, tensor.storage());
  return location;
}

/// Of a tensor that was saved while an operator ran that writes it, the value is the one before the
/// write if the count has moved since.
Location Recorder::locate(const Pending& pending) {
  const bool is_copy = pending.shown.defined() && !pending.shown.is_same(pending.tensor);
  const bool changed = is_copy || version_of(pending.tensor) != pending.version;
  if (failure_ || pending.before == kNone || !changed) return locate(pending.tensor);
  const auto lock = recording_->lock();
  Location location = at_value(pending.shown, pending.before);
  location.cloned = is_copy;
  if (is_copy && location.state != nullptr) location.state->shown.reset();
  location.spot = pending.spot;  // of what was saved: its elements may be gone
  return location;
}

Location Recorder::at_value(const at::Tensor& tensor, ValueId value) {
  const auto& facts = recording_->tape.value(value);
  if (!facts.defined) return Location::kept(Reason::unknown);
  if (facts.producer == kNone) return at_source(tensor, value);
  const uint32_t pack = recording_->packs++;
  if (recording_->profile) recording_->profile->packs.push_back(value);
  const bool kept = is_kept_by_policy(value);
  const Memory& memory = recording_->memories[facts.buffer];
  // A name may still take the decision back: then the recording keeps the value, not the handle.
  auto wanted = kept ? wanted_by(recording_->held[value]->saved_by) : nullptr;
  const bool decided = !(memory.told && memory.current == value);
  const bool by_recording = recording_->hooked || is_in_function();
  auto location = kept && decided && !by_recording
                      ? Location::kept(Reason::policy)
                      : on_tape(tensor, value, kept ? Reason::policy : Reason::recomputed);
  location.wanted = std::move(wanted);
  if (location.saved == kNone) return location;
  location.state->pack = pack;
  location.as_object = kept && decided && !recording_->hooked;
  location.state->shown = c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr());
  if (is_repeatable(value)) location.spot = spot_hash(tensor);
  if (!kept && !recording_->whole && !always_recompute()) keep_for_now(value);
  Held* held = recording_->find_held(value);
  if (held != nullptr && held->kept_for_now) location.wanted = wanted_by(held->saved_by);
  return location;
}

/// A handle of this location asks the recording for the value.
Location Recorder::on_tape(const at::Tensor& tensor, ValueId value, Reason reason) {
  Location location;
  location.reason = reason;
  location.geometry = geometry_of(tensor);
  location.saved = recording_->tape.add_saved(value, regions_.back().id, location.geometry.bytes());
  location.state = &recording_->saved.emplace_back();
  return location;
}

/// What was made outside is kept by its handle. By the recording, which may need it too, where
/// hooks of the user's get what the region keeps, which then see it once, and where a custom
/// Function saves it, whose backward may write it.
Location Recorder::at_source(const at::Tensor& tensor, ValueId value) {
  const BufferId buffer = recording_->tape.value(value).buffer;
  Memory& memory = recording_->memories[buffer];
  if (memory.saved != value) memory.saved_by.reset();
  memory.saved = value;
  auto wanted = wanted_by(memory.saved_by);
  if (auto copy = recording_->let_go_of_copy(value)) graveyard_.push_back(std::move(copy));
  const bool is_there = memory.current == value;
  const bool by_recording = recording_->hooked || is_in_function();
  auto location = Location::kept(Reason::input);
  if (by_recording && is_there && !recording_->whole) {
    hold_source({buffer, value, tensor, version_of(tensor)});
    location = on_tape(tensor, value, Reason::input);
    location.as_object = !recording_->hooked;
  }
  location.wanted = std::move(wanted);
  return location;
}

/// Keeps the value if that takes less than what recomputing it would hold, and lets go of all that
/// was kept so as soon as it does not.
void Recorder::keep_for_now(ValueId value) {
  if (!balance_.is_better_kept(value)) {
    if (balance_.kept().empty()) return;
    return let_go_of_balance(*recording_, graveyard_);
  }
  auto storage = recording_->original(value);
  if (!storage || recording_->find_held(value) != nullptr) return;
  Held held;
  held.why = Held::Why::policy;
  held.kept_for_now = true;
  held.storage = std::move(*storage);
  recording_->hold(value, std::move(held));
}

bool Recorder::is_repeatable(ValueId value) const {
  const NodeId producer = recording_->tape.value(value).producer;
  const uint32_t unrepeatable =
      static_cast<const Call&>(*recording_->tape.node(producer).call).target->unrepeatable_results;
  if (unrepeatable == 0) return true;
  const auto results = recording_->tape.results(producer);
  const auto index = std::find(results.begin(), results.end(), value) - results.begin();
  return (unrepeatable >> static_cast<uint32_t>(index) & 1U) == 0;
}

}  // namespace remat::record
