#include "remat/replay/replayer.h"

#include <torch/csrc/autograd/graph_task.h>

#include "remat/tape/slice.h"

namespace remat::replay {

using record::Recording;
using tape::kNone;
using tape::SavedId;
using tape::ValueId;

c10::Storage Replayer::fetch(Recording& recording, SavedId saved) {
  Freed freed;  // destroyed after the lock is released
  const std::lock_guard lock(recording.mutex);
  const int64_t task = torch::autograd::get_current_graph_task_id();
  enter_graph_task(task, freed);
  const ValueId value = recording.tape.saved()[saved].value;
  const bool first_time = std::exchange(recording.saved[saved].served_in, task) != task;
  const auto cached = cache_.find(value);
  if (cached == cache_.end()) return replay(recording, saved, freed);
  auto storage = cached->second.storage;
  if (first_time) served(value, freed);
  return storage;
}

/// Backward asks for each saved tensor once a graph task. A new one (retain_graph) starts with
/// nothing held, as the first did.
void Replayer::enter_graph_task(int64_t task, Freed& freed) {
  if (task == graph_task_) return;
  for (auto& [value, entry] : cache_) freed.push_back(std::move(entry.storage));
  cache_.clear();
  has_boundaries_ = false;
  graph_task_ = task;
}

c10::Storage Replayer::replay(Recording& recording, SavedId saved, Freed& freed) {
  if (has_boundaries_) drop_boundaries(recording, freed);
  const tape::Saved asked = recording.tape.saved()[saved];
  Storages hand(recording.tape.values());  // keeps what was found at hand alive until it is read
  const auto at_hand = [&](ValueId value) {
    if (hand[value]) return true;
    const auto cached = cache_.find(value);
    auto storage = cached != cache_.end() ? std::make_optional(cached->second.storage)
                                          : recording.at_hand(value);
    if (storage) hand[value] = std::move(*storage);
    return static_cast<bool>(hand[value]);
  };
  if (at_hand(asked.value)) return hand[asked.value];

  const auto others = pending(recording, saved);
  const auto nodes = tape::slice(recording.tape, std::span(&asked.value, 1), at_hand);
  const auto held = tape::held_after(recording.tape, nodes, asked.region, others, at_hand);
  auto wanted = held;
  wanted[asked.value] = true;
  const auto source = [&](ValueId value) {
    TORCH_CHECK(at_hand(value),
                "remat: a value that backward needs was not recorded (please report this)");
    return hand[value];
  };
  auto made = run(recording, nodes, wanted, source);
  auto storage = made[asked.value];
  for (ValueId value = 0; value < made.size(); ++value) {
    if (!held[value] || hand[value]) made[value] = c10::Storage();
  }
  hold(recording, others, std::move(made));
  std::move(hand.begin(), hand.end(), std::back_inserter(freed));
  return storage;
}

void Replayer::hold(const Recording& recording, std::span<const SavedId> pending, Storages made) {
  std::vector<uint32_t> wanted_by(made.size(), 0);
  for (const SavedId id : pending) ++wanted_by[recording.tape.saved()[id].value];
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
  if (--entry->second.wanted_by > 0 || entry->second.boundary) return;
  freed.push_back(std::move(entry->second.storage));
  cache_.erase(entry);
}

/// Frees the values from which no pending saved tensor is to be recomputed any more.
void Replayer::drop_boundaries(const Recording& recording, Freed& freed) {
  std::vector<bool> needed(recording.tape.values(), false);
  std::vector<ValueId> wanted;
  for (const SavedId id : pending(recording, kNone))
    wanted.push_back(recording.tape.saved()[id].value);
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
