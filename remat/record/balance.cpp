#include "remat/record/balance.h"

#include <algorithm>
#include <atomic>

#include "remat/record/gather.h"

namespace remat::record {

using tape::kNone;
using tape::NodeId;
using tape::ValueId;

namespace {

std::atomic<bool> recompute_always{false};
std::atomic<bool> sharded{false};
bool (*sharding_test)() = has_gather;

}  // namespace

void set_sharding_test(bool (*test)()) { sharding_test = test; }

bool may_be_sharded() {
  if (!sharded && sharding_test()) sharded = true;
  return sharded;
}

void set_always_recompute(bool always) { recompute_always = always; }
bool always_recompute() { return recompute_always; }

void Balance::start(Recording& recording) {
  recording_ = &recording;
  dropped_ = held_ = held_states_ = 0;
  seen_nodes_.clear();
  seen_values_.clear();
  saved_values_.clear();
  sources_.clear();
  states_.clear();
  kept_.clear();
}

bool Balance::is_better_kept(ValueId value) {
  const auto& tape = recording_->tape;
  seen_nodes_.resize(tape.nodes(), false);
  seen_values_.resize(tape.values(), false);
  saved_values_.resize(tape.values(), false);
  const bool again = saved_values_[value];
  saved_values_[value] = true;
  if (!again) dropped_ += tape.buffer_bytes(tape.value(value).buffer);
  const int64_t held_before = held_;
  count_sources_of(value);
  constexpr size_t kFew = 256;  // with more, each is little beside the others
  if (held_ > held_before && tape.saved().size() <= kFew) dropped_ = bytes_wanted();
  // A small region decides at its end, when it is known which graphs live.
  constexpr int64_t kSmallRegion = 16 << 10;
  const bool pays = dropped_ >= held_ && (held_ == 0 || dropped_ > kSmallRegion);
  if (pays || may_be_sharded()) return false;
  if (!again) kept_.push_back(value);
  return true;
}

/// Bytes of the values that autograd saved and whose graph still lives.
int64_t Balance::bytes_wanted() const {
  const auto& tape = recording_->tape;
  std::vector<bool> counted(tape.values(), false);
  int64_t bytes = 0;
  for (tape::SavedId id = 0; id < tape.saved().size(); ++id) {
    const ValueId value = tape.saved()[id].value;
    const bool wanted = value != kNone && !recording_->saved[id].released &&
                        tape.value(value).producer != kNone && !counted[value];
    if (!wanted) continue;
    counted[value] = true;
    bytes += tape.buffer_bytes(tape.value(value).buffer);
  }
  return bytes;
}

/// Adds what the value's operators read from outside and draw, where nothing before needed it.
void Balance::count_sources_of(ValueId value) {
  const auto& tape = recording_->tape;
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    if (next == kNone || seen_values_[next]) continue;
    seen_values_[next] = true;
    const NodeId producer = tape.value(next).producer;
    if (producer == kNone) {
      sources_.push_back(next);
      held_ += cost_of(next);
    } else if (!seen_nodes_[producer] && !recording_->is_kept(next)) {
      seen_nodes_[producer] = true;
      count_draw(producer);
      const auto reads = tape.reads(producer);
      open.insert(open.end(), reads.begin(), reads.end());
    }
  }
}

void Balance::count_draw(NodeId node) {
  const tape::DrawId draw = recording_->tape.node(node).draw;
  if (draw == kNone) return;
  const at::Tensor& state = recording_->draws[draw].state;
  const auto* storage = state.storage().unsafeGetStorageImpl();
  if (std::find(states_.begin(), states_.end(), storage) != states_.end()) return;
  states_.push_back(storage);
  held_states_ += static_cast<int64_t>(state.nbytes());
  held_ += static_cast<int64_t>(state.nbytes());
}

/// Bytes that are held of a source and would not be in plain training: what is small and autograd
/// does not keep. Larger ones are held as the program's own.
int64_t Balance::cost_of(ValueId source) const {
  const Held* held = recording_->find_held(source);
  const Memory& memory = recording_->memories[recording_->tape.value(source).buffer];
  const bool saved = memory.is_saved(source) && !memory.exposed;
  if (held == nullptr || saved || is_trained(*held)) return 0;
  const bool is_copy = held->why == Held::Why::copy;
  return is_copy || is_small(*held) ? static_cast<int64_t>(held->shown.bytes()) : 0;
}

bool Balance::pays_in_the_end() const {
  int64_t held = held_states_;
  for (const ValueId source : sources_) held += cost_of(source);
  return bytes_wanted() >= held;
}

void Balance::renumber(const tape::Tape::Renumbering& left) {
  const auto renumbered = [&](std::vector<ValueId>& values) {
    for (ValueId& value : values) value = left.values[value];
    std::erase(values, kNone);
  };
  renumbered(sources_);
  renumbered(kept_);
  seen_nodes_.assign(recording_->tape.nodes(), true);
  seen_values_.assign(recording_->tape.values(), true);
  saved_values_.assign(recording_->tape.values(), false);
}

}  // namespace remat::record
