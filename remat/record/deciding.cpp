#include <algorithm>

#include "remat/record/recorder.h"
#include "remat/record/view.h"

// What a policy is told of a value, and what becomes of its decision.

namespace remat::record {

using policy::Decision;
using policy::Facts;
using tape::kNone;
using tape::NodeId;
using tape::ValueId;

void Recorder::apply_policy(NodeId node) {
  const auto& tape = recording_->tape;
  const tape::Call& call = *tape.node(node).call;
  Region& region = regions_.back();
  Facts facts{.op = call.op, .index = recorded_++};
  if (region.policy.wants().call) facts.call = ++region.calls[op_];
  const auto running = module();
  if (running) facts.module = *running;
  const auto consider = [&](ValueId value, const tape::Geometry& geometry) {
    facts.bytes = tape.buffer_bytes(tape.value(value).buffer);
    facts.geometry = &geometry;
    decide(value, facts);
    ++facts.result;
  };
  const auto writes = tape.writes(node);
  for (size_t i = 0; i < writes.size(); ++i) consider(writes[i], call.reads[call.writes[i].read]);
  const auto results = tape.results(node);
  for (size_t i = 0; i < results.size(); ++i) consider(results[i], call.results[i]);
  keep_in_place(writes);
}

/// What an operator puts in the place of a value that a policy kept takes no more memory than that,
/// and is what is left of it: torch adds the bias of a projection to the product in place.
void Recorder::keep_in_place(std::span<const ValueId> writes) {
  size_t next = 0;
  for (const Written& written : written_) {
    if (written.statistic) continue;
    const ValueId value = writes[next++];
    if (written.kept && !written.overwritten && !is_kept_by_policy(value))
      keep(value, written.tensor.storage(), geometry_of(written.tensor));
  }
}

void Recorder::decide(ValueId value, const Facts& facts) {
  Memory& memory = recording_->memories[recording_->tape.value(value).buffer];
  const bool cast = casts_parameter();
  const auto wants_names = [](const Region& region) { return region.policy.wants().names; };
  const bool named_later = !cast && std::any_of(regions_.begin(), regions_.end(), wants_names);
  memory.told.reset();
  if (named_later) memory.told = std::make_unique<Memory::Told>(Memory::Told{facts, module(), {}});
  const auto decision = regions_.back().policy(facts);
  if (!cast && decision == Decision::recompute) return;
  if (auto storage = memory.storage.lock())
    keep(value, c10::Storage(std::move(storage)), *facts.geometry);
}

/// A cast of a parameter lives in autocast's cache anyway, and the parameter may be updated before
/// backward: it is kept whatever the policy says.
bool Recorder::casts_parameter() const {
  return op_->base == std::string_view("aten::_to_copy") && !reads_.empty() &&
         recording_->memories[reads_[0].buffer].is_trained();
}

void Recorder::keep(ValueId value, c10::Storage storage, const tape::Geometry& geometry) {
  Held held;
  held.why = Held::Why::policy;
  held.storage = std::move(storage);
  held_bytes_ += held.storage.nbytes();
  if (recording_->hooked) held.seen = Held::Seen{geometry, 0, 0, 0};
  const auto lock = recording_->lock();
  recording_->hold(value, std::move(held));
}

bool Recorder::is_kept_by_policy(ValueId value) const {
  const Held* held = recording_->find_held(value);
  return held != nullptr && held->why == Held::Why::policy && !held->kept_for_now;
}

// ---- Modules
// -------------------------------------------------------------------------------------------------

void Recorder::set_module(size_t depth, std::string path) {
  if (depth > regions_.size() || !is_this_thread()) return;
  regions_[depth - 1].module = std::make_shared<const std::string>(std::move(path));
}

std::shared_ptr<const std::string> Recorder::module() const {
  const auto told = [](const Region& region) { return region.module != nullptr; };
  const auto found = std::find_if(regions_.rbegin(), regions_.rend(), told);
  return found == regions_.rend() ? nullptr : found->module;
}

// ---- Names
// ---------------------------------------------------------------------------------------------------

void Recorder::name(const at::Tensor& tensor, const std::string& name) {
  if (leaf_ != Leaf::none || failure_ || abandoned_ || kind_of(tensor) != Kind::plain) return;
  const Pause pause;
  const ValueId value = note_name(tensor, name);
  if (value == kNone) return;
  Memory& memory = recording_->memories[recording_->tape.value(value).buffer];
  if (!memory.told) return;
  memory.told->names.push_back(name);
  memory.told->facts.names = memory.told->names;
  carry_out(value, region_of(value).policy(memory.told->facts), tensor);
}

/// Writes the name to the tape. Returns the value; kNone where no node of the tape made it.
ValueId Recorder::note_name(const at::Tensor& tensor, const std::string& name) {
  const auto lock = recording_->lock();
  if (parameter_of(tensor) != nullptr || !memories_.knows(tensor)) return kNone;
  const ValueId value = recording_->memories[memories_.see(tensor)].current;
  if (recording_->tape.value(value).producer == kNone) return kNone;
  recording_->tape.add_name(value, name);
  return value;
}

/// The innermost open region in which the value was made: its policy decides.
const Recorder::Region& Recorder::region_of(ValueId value) const {
  const auto& tape = recording_->tape;
  const auto made_in = tape.node(tape.value(value).producer).region;
  const auto found = std::find_if(regions_.rbegin(), regions_.rend(), [&](const Region& region) {
    return tape.encloses(region.id, made_in);
  });
  return found == regions_.rend() ? regions_.front() : *found;
}

/// A decision that a name changed. Handles that autograd made of the value meanwhile ask the
/// recording in backward; only what was counted of them is to be set right.
void Recorder::carry_out(ValueId value, Decision decision, const at::Tensor& tensor) {
  const bool keeps = decision == Decision::keep;
  if (keeps == is_kept_by_policy(value)) return;
  std::unique_ptr<Held> freed;  // destroyed after the lock is released
  if (keeps) keep(value, tensor.storage(), geometry_of(tensor));
  const auto lock = recording_->lock();
  if (!keeps) freed = std::move(recording_->held[value]);
  const auto& saved = recording_->tape.saved();
  const NodeId producer = recording_->tape.value(value).producer;
  for (auto entry = saved.rbegin(); entry != saved.rend() && entry->after > producer; ++entry) {
    if (entry->value == value)
      counters().move(entry->bytes, keeps ? Reason::recomputed : Reason::policy,
                      keeps ? Reason::policy : Reason::recomputed);
  }
}

}  // namespace remat::record
