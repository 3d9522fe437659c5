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

void Recorder::pack(Packed& packed, const at::Tensor& tensor) {
  if (leaf_ != Leaf::none) {
    pending_.push_back({&packed, tensor, version_of(tensor)});
    return;
  }
  packed.settle(locate(tensor));
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
      location = locate(pending.tensor, pending.version);
    } catch (...) {
      fail(std::current_exception());
      location.reason = Reason::suspended;
    }
    pending.packed->settle(std::move(location));
  }
}

Location Recorder::locate(const at::Tensor& tensor) {
  if (failure_ || abandoned_) return Location::kept(Reason::suspended);
  if (kind_of(tensor) != Kind::plain) return Location::kept(Reason::opaque);
  const Pause pause;
  const auto lock = recording_->lock();
  if (parameter_of(tensor) != nullptr) return Location::kept(Reason::parameter);
  if (!memories_.knows(tensor)) return pre_image(tensor);
  const BufferId buffer = memories_.see(tensor);
  if (memories_.is_displaced(buffer, tensor)) return Location::kept(Reason::input);
  const ValueId value = recording_->memories[buffer].current;
  Location location = at_value(tensor, value);
  if (recording_->verification && location.saved != kNone)
    recording_->verification->note_saved(location.saved, value, tensor.storage());
  return location;
}

/// For a tensor that was saved while an operator that writes it ran: the value is the one before
/// the write if the count had not moved when it was saved but has moved since.
Location Recorder::locate(const at::Tensor& tensor, uint32_t version) {
  const Written* written = failure_ || kind_of(tensor) != Kind::plain ? nullptr : writer_of(tensor);
  if (written == nullptr) return locate(tensor);
  const Read& read = reads_[written->read];
  const bool saved_before = version == read.version && version_of(tensor) != read.version;
  if (!saved_before) return locate(tensor);
  const auto lock = recording_->lock();
  // Its elements are gone: the hash is of what the operator found.
  Location location = at_value(tensor, read.value);
  location.spot = geometry_of(tensor) == geometry_of(written->tensor) ? written->before : 0;
  return location;
}

const Recorder::Written* Recorder::writer_of(const at::Tensor& tensor) const {
  const auto writes_it = [&](const Written& written) {
    return written.tensor.storage().is_alias_of(tensor.storage());
  };
  const auto found = std::find_if(written_.begin(), written_.end(), writes_it);
  return found == written_.end() ? nullptr : &*found;
}

Location Recorder::at_value(const at::Tensor& tensor, ValueId value) {
  const auto& facts = recording_->tape.value(value);
  if (!facts.defined) return Location::kept(Reason::unknown);
  if (facts.producer == kNone) return Location::kept(Reason::input);
  const uint32_t pack = recording_->packs++;
  if (recording_->profile) recording_->profile->packs.push_back(value);
  const bool kept = is_kept_by_policy(value);
  const Memory& memory = recording_->memories[facts.buffer];
  // A name may still take the decision back: then the recording keeps the value, not the handle.
  if (kept) recording_->held[value]->saved = true;
  if (kept && !(memory.told && memory.current == value)) return Location::kept(Reason::policy);
  Location location;
  location.reason = kept ? Reason::policy : Reason::recomputed;
  location.geometry = geometry_of(tensor);
  location.saved = recording_->tape.add_saved(value, regions_.back().id, location.geometry.bytes());
  location.state = &recording_->saved.emplace_back();
  location.state->pack = pack;
  if (is_repeatable(value)) location.spot = spot_hash(tensor);
  return location;
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

/// In-place operators under grad save a private clone of what they are about to change. That is the
/// value before the write, and can be recomputed as such.
Location Recorder::pre_image(const at::Tensor& tensor) {
  for (const Written& written : written_) {
    if (written.before == 0 || !(geometry_of(tensor) == geometry_of(written.tensor))) continue;
    const uint64_t hash = spot_hash(tensor);
    if (hash != written.before) continue;
    Location location = at_value(tensor, reads_[written.read].value);
    location.spot = hash;
    return location;
  }
  return Location::kept(leaf_ == Leaf::none ? Reason::input : Reason::unknown);
}

}  // namespace remat::record
