#include "remat/replay/replayer.h"

#include <algorithm>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/node.h>

#include "remat/memory/ledger.h"
#include "remat/memory/memory.h"
#include "remat/tape/slice.h"

namespace remat::replay {

using record::Recording;
using tape::kNone;
using tape::SavedId;
using tape::ValueId;

namespace {

std::vector<ValueId> values_of(const Recording& recording, std::span<const SavedId> ids) {
  std::vector<ValueId> values;
  values.reserve(ids.size());
  for (const SavedId id : ids) values.push_back(recording.tape.saved()[id].value);
  return values;
}

/// By value, how many of the saved tensors are it.
std::vector<uint32_t> count_by_value(const Recording& recording, std::span<const SavedId> ids) {
  std::vector<uint32_t> counts(recording.tape.values(), 0);
  for (const ValueId value : values_of(recording, ids)) ++counts[value];
  return counts;
}

}  // namespace

record::Given Replayer::fetch(Recording& recording, SavedId saved) {
  if (recording.whole) recording.announce_backward();
  Freed freed;  // destroyed after the lock is released
  std::vector<std::unique_ptr<record::Held>> let_go;
  const auto lock = recording.lock();
  const int64_t task = torch::autograd::get_current_graph_task_id();
  enter_graph_task(task, freed);
  const bool first_time = std::exchange(recording.saved[saved].served_in, task) != task;
  const bool profiled = recording.profile && !recording.on_backward;  // else forward goes on
  if (first_time && profiled) note_asked(recording, saved);
  if (first_time && schedule_) advance(recording, saved, freed, let_go);
  const ValueId value = recording.tape.saved()[saved].value;
  const auto away = give_away(recording, saved);
  Cached* cached = away ? nullptr : find_cached(value);
  auto given = away                ? *away
               : cached != nullptr ? record::Given{cached->storage, cached->watch.counter()}
                                   : replay(recording, saved, freed);
  if (first_time && cached != nullptr) served(value, freed);
  if (first_time && profiled) note_served(recording, value, given.storage);
  return given;
}

/// A custom Function asks for what the recording holds and cannot make again: its backward may use
/// that as scratch. Where others are still to be recomputed from it, the recording takes a copy.
std::optional<record::Given> Replayer::give_away(Recording& recording, SavedId saved) {
  const auto node = torch::autograd::get_current_node();
  const ValueId value = recording.tape.saved()[saved].value;
  const record::Held* held = recording.find_held(value);
  const bool is_given = held != nullptr && held->storage && held->why != record::Held::Why::copy;
  // Torch's own nodes write nothing of what they saved.
  const bool is_torchs = dynamic_cast<torch::autograd::TraceableFunction*>(node.get()) != nullptr;
  if (node == nullptr || is_torchs || !is_given) return std::nullopt;
  const auto others = values_of(recording, pending(recording, saved));
  const auto at_hand = [&](ValueId other) {
    return other != value && (cache_.count(other) != 0 || recording.is_kept(other));
  };
  const auto reads_it = [&](tape::NodeId id) {
    const auto reads = recording.tape.reads(id);
    return std::find(reads.begin(), reads.end(), value) != reads.end();
  };
  const auto nodes = tape::slice(recording.tape, others, at_hand);
  const bool needed = std::find(others.begin(), others.end(), value) != others.end() ||
                      std::any_of(nodes.begin(), nodes.end(), reads_it);
  return needed ? recording.give_away(value) : std::nullopt;
}

/// Null where the value is not cached. One that a backward has written is dropped: it is made
/// again.
Replayer::Cached* Replayer::find_cached(ValueId value) {
  const auto found = cache_.find(value);
  if (found == cache_.end()) return nullptr;
  if (found->second.is_intact()) return &found->second;
  cache_.erase(found);
  return nullptr;
}

namespace {

/// Once a backward pass, whatever its number of recordings.
void prepare_for_a_step(int64_t task) {
  thread_local int64_t prepared = record::SavedState::kNever;
  if (task == -1 || std::exchange(prepared, task) == task) return;
  torch::autograd::Engine::get_default_engine().queue_callback(&Recording::copy_before_a_step);
}

}  // namespace

/// Backward asks for each saved tensor once a graph task. A new one (retain_graph) starts with
/// nothing held, as the first did.
void Replayer::enter_graph_task(int64_t task, Freed& freed) {
  if (task == graph_task_) return;
  prepare_for_a_step(task);
  for (auto& [value, entry] : cache_) freed.push_back(std::move(entry.storage));
  cache_.clear();
  served_.clear();
  has_boundaries_ = false;
  if (next_step_ != 0) schedule_.reset();  // it was for the first one
  graph_task_ = task;
}

// ---- Following a schedule
// -------------------------------------------------------------------------

/// Runs what the schedule has for the steps up to the one that asks for this saved tensor. Where
/// backward does not go as the schedule says, the schedule is dropped: everything is then
/// recomputed on demand, which is always right.
void Replayer::advance(Recording& recording, SavedId saved, Freed& freed,
                       std::vector<std::unique_ptr<record::Held>>& let_go) {
  const uint32_t pack = recording.saved[saved].pack;
  const auto& asked_in = schedule_->asked_in;
  const auto step = pack < asked_in.size() ? asked_in[pack] : Schedule::kNoStep;
  if (step + 1 == next_step_) return;  // the same autograd node asks again
  if (step == Schedule::kNoStep || step < next_step_) {
    schedule_.reset();
    return;
  }
  const ValueId asked = recording.tape.saved()[saved].value;
  bool ran = false;
  for (; schedule_ && next_step_ <= step; ++next_step_) {
    drop_expired(next_step_, freed);
    ran = run_step(recording, next_step_, asked) || ran;
  }
  const bool again = torch::autograd::get_current_graph_task_keep_graph();
  if (ran && !again) drop_unneeded(recording, asked, let_go);
}

bool Replayer::run_step(Recording& recording, Schedule::Step step, ValueId asked) {
  const auto& nodes = schedule_->runs[step];
  if (nodes.empty()) return false;
  if (!can_run(recording, nodes)) {
    schedule_.reset();
    return false;
  }
  std::vector<bool> wanted(recording.tape.values(), false);
  for (const auto& made : schedule_->holds[step]) wanted[made.value] = true;
  auto storages =
      run(recording, nodes, wanted, [&](ValueId value) { return *at_hand(recording, value); });
  auto wanted_by = count_by_value(recording, pending(recording, kNone));
  ++wanted_by[asked];
  for (const auto& made : schedule_->holds[step]) {
    cache_.erase(made.value);
    cache_.emplace(made.value, Cached{std::move(storages[made.value]), wanted_by[made.value], true,
                                      made.until});
  }
  has_boundaries_ = true;
  return true;
}

/// Whether all that the nodes read is made by one of them before or can be had without running
/// anything.
bool Replayer::can_run(Recording& recording, std::span<const tape::NodeId> nodes) {
  std::vector<bool> there(recording.tape.values(), false);
  for (const tape::NodeId id : nodes) {
    for (const ValueId value : recording.tape.reads(id)) {
      if (value == kNone || there[value]) continue;
      if (!recording.is_absent(value) && !at_hand(recording, value)) return false;
      there[value] = true;
    }
    for (const ValueId value : recording.tape.writes(id)) there[value] = true;
    for (const ValueId value : recording.tape.results(id)) there[value] = true;
  }
  return true;
}

std::optional<c10::Storage> Replayer::at_hand(Recording& recording, ValueId value) {
  const Cached* cached = find_cached(value);
  return cached != nullptr ? cached->storage : recording.at_hand(value);
}

void Replayer::drop_expired(Schedule::Step step, Freed& freed) {
  for (auto entry = cache_.begin(); entry != cache_.end();) {
    if (entry->second.until < step) {
      freed.push_back(std::move(entry->second.storage));
      entry = cache_.erase(entry);
    } else {
      ++entry;
    }
  }
}

/// Lets go of kept values that only replays read, once the last of these has run.
void Replayer::drop_unneeded(Recording& recording, ValueId asked,
                             std::vector<std::unique_ptr<record::Held>>& let_go) {
  auto wanted = values_of(recording, pending(recording, kNone));
  wanted.push_back(asked);
  const auto at_hand = [&](ValueId value) {
    return cache_.count(value) != 0 || recording.is_kept(value);
  };
  recording.drop_unneeded(wanted, at_hand, let_go);
}

// ---- Measuring
// -----------------------------------------------------------------------------------

void Replayer::note_asked(Recording& recording, SavedId saved) {
  const auto peak = static_cast<int64_t>(memory::ledger().take_window_peak());
  const auto live = static_cast<int64_t>(memory::live_bytes());
  recording.profile->value_asked(torch::autograd::get_current_node().get(),
                                 recording.saved[saved].pack, {live, peak}, own_bytes());
}

void Replayer::note_served(Recording& recording, ValueId value, const c10::Storage& storage) {
  const auto again = [&](const auto& entry) {
    return entry.second._unsafe_get_target() == storage.unsafeGetStorageImpl();
  };
  if (std::none_of(served_.begin(), served_.end(), again))
    served_.emplace_back(value, storage.getWeakStorageImpl());
  recording.profile->value_served(own_bytes());
  memory::ledger().take_window_peak();
}

int64_t Replayer::own_bytes() {
  int64_t own = cached_bytes();
  std::erase_if(served_, [&](const auto& entry) {
    const auto alive = entry.second.lock();
    if (!alive) return true;
    const auto cached = cache_.find(entry.first);
    const bool counted =
        cached != cache_.end() && cached->second.storage.unsafeGetStorageImpl() == alive.get();
    own += counted ? 0 : static_cast<int64_t>(alive->nbytes());
    return false;
  });
  return own;
}

// ---- On demand
// -----------------------------------------------------------------------------------

record::Given Replayer::replay(Recording& recording, SavedId saved, Freed& freed) {
  const tape::Saved asked = recording.tape.saved()[saved];
  // A schedule says when each value goes; asking the tape at every saved tensor would cost a walk.
  if (has_boundaries_ && !schedule_) drop_boundaries(recording, asked.value, freed);
  if (auto there = this->at_hand(recording, asked.value))
    return {std::move(*there), recording.counter_of(asked.value)};
  Storages hand(recording.tape.values());  // keeps what was found at hand alive until it is read
  const auto at_hand = [&](ValueId value) {
    if (hand[value]) return true;
    auto storage = this->at_hand(recording, value);
    if (storage) hand[value] = std::move(*storage);
    return static_cast<bool>(hand[value]);
  };
  const auto others = pending(recording, saved);
  const auto nodes = tape::slice(recording.tape, std::span(&asked.value, 1), at_hand);
  const auto held = tape::held_after(recording.tape, nodes, asked.region, others, at_hand);
  auto wanted = held;
  wanted[asked.value] = true;
  const auto source = [&](ValueId value) {
    if (hand[value]) return hand[value];
    auto storage = this->at_hand(recording, value);
    TORCH_CHECK(storage,
                "remat: a value that backward needs was not recorded (please report this)");
    return std::move(*storage);
  };
  auto made = run(recording, nodes, wanted, source);
  auto storage = made[asked.value];
  for (ValueId value = 0; value < made.size(); ++value) {
    const bool is_source = recording.tape.value(value).producer == kNone;
    if (!held[value] || hand[value] || is_source) made[value] = c10::Storage();
  }
  hold(recording, others, std::move(made));
  std::move(hand.begin(), hand.end(), std::back_inserter(freed));
  Cached* cached = find_cached(asked.value);
  return {std::move(storage), cached == nullptr ? c10::VariableVersion() : cached->watch.counter()};
}

void Replayer::hold(const Recording& recording, std::span<const SavedId> pending, Storages made) {
  const auto wanted_by = count_by_value(recording, pending);
  for (ValueId value = 0; value < made.size(); ++value) {
    if (!made[value]) continue;
    const bool boundary = wanted_by[value] == 0;
    has_boundaries_ = has_boundaries_ || boundary;
    cache_.emplace(value, Cached{std::move(made[value]), wanted_by[value], boundary});
  }
}

void Replayer::served(ValueId value, Freed& freed) {
  const auto entry = cache_.find(value);
  if (entry == cache_.end() || entry->second.wanted_by == 0) return;
  const bool expired = schedule_ != nullptr && entry->second.until < next_step_;
  if (--entry->second.wanted_by > 0 || (entry->second.boundary && !expired)) return;
  freed.push_back(std::move(entry->second.storage));
  cache_.erase(entry);
}

/// Frees the values from which no pending saved tensor is to be recomputed any more.
void Replayer::drop_boundaries(const Recording& recording, ValueId asked, Freed& freed) {
  std::vector<bool> needed(recording.tape.values(), false);
  auto wanted = values_of(recording, pending(recording, kNone));
  wanted.push_back(asked);
  for (const ValueId value : wanted) needed[value] = true;
  const auto cached = [&](ValueId value) { return cache_.count(value) != 0; };
  for (const tape::NodeId id : tape::slice(recording.tape, wanted, cached)) {
    for (const ValueId value : recording.tape.reads(id)) {
      if (value != kNone) needed[value] = true;
    }
  }
  has_boundaries_ = false;
  for (auto entry = cache_.begin(); entry != cache_.end();) {
    if (needed[entry->first]) {
      has_boundaries_ = has_boundaries_ || entry->second.boundary;
      ++entry;
    } else {
      freed.push_back(std::move(entry->second.storage));
      entry = cache_.erase(entry);
    }
  }
}

std::vector<SavedId> Replayer::pending(const Recording& recording, SavedId but) const {
  std::vector<SavedId> ids;
  for (SavedId id = 0; id < recording.saved.size(); ++id) {
    const auto& state = recording.saved[id];
    const bool wanted =
        state.served_in != graph_task_ && !state.released.load(std::memory_order_acquire);
    if (id != but && wanted) ids.push_back(id);
  }
  return ids;
}

void Replayer::forget(Recording& recording, SavedId saved) {
  Freed freed;
  std::vector<std::unique_ptr<record::Held>> let_go;
  const std::unique_lock lock(recording.mutex, std::try_to_lock);
  // Whoever has the lock keeps the value a little longer: until the next handle goes or the graph
  // task ends.
  if (!lock.owns_lock()) return;
  if (!cache_.empty() && recording.saved[saved].served_in != graph_task_) {
    served(recording.tape.saved()[saved].value, freed);
  }
  recording.let_go(let_go);
}

void Replayer::renumber(const std::vector<ValueId>& values) {
  ska::flat_hash_map<ValueId, Cached> renumbered;
  for (auto& [value, entry] : cache_) {
    if (values[value] != kNone) renumbered.emplace(values[value], std::move(entry));
  }
  cache_ = std::move(renumbered);
}

int64_t Replayer::cached_bytes() const {
  int64_t bytes = 0;
  for (const auto& [value, entry] : cache_) bytes += static_cast<int64_t>(entry.storage.nbytes());
  return bytes;
}

}  // namespace remat::replay
