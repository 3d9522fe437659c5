#pragma once

#include <span>
#include <vector>

#include <c10/util/flat_hash_map.h>

#include "remat/record/recording.h"
#include "remat/replay/run.h"
#include "remat/replay/schedule.h"

/// Runs recorded operators again. Decides nothing: what runs and what is held follows from the
/// tape.
namespace remat::replay {

/// The values that replays of one recording made and that backward will ask for.
class Replayer final : public record::Source {
 public:
  /// From here on follows the schedule, as long as backward asks in its order; without it, or where
  /// backward leaves it, each saved tensor is recomputed when it is asked for.
  void follow(std::shared_ptr<const Schedule> schedule) { schedule_ = std::move(schedule); }
  /// True iff a schedule was given and followed so far.
  [[nodiscard]] bool follows() const { return schedule_ != nullptr; }
  /// The backward pass that asked last, as autograd numbers them.
  [[nodiscard]] int64_t graph_task() const { return graph_task_; }

  record::Given fetch(record::Recording& recording, tape::SavedId saved) override;
  void forget(record::Recording& recording, tape::SavedId saved) override;
  void renumber(const std::vector<tape::ValueId>& values) override;
  [[nodiscard]] int64_t cached_bytes() const override;

 private:
  /// A value that a replay made.
  struct Cached {
    c10::Storage storage;
    uint32_t wanted_by = 0;    ///< pending saved tensors that are this value
    bool boundary = false;     ///< later replays start from it
    Schedule::Step until = 0;  ///< where a schedule is followed: the last step that uses it
    size_t bytes = storage.nbytes();
    record::WriteWatch watch = {};

    /// False where a backward that was given it has written or freed it.
    [[nodiscard]] bool is_intact() const {
      return !watch.saw_a_write() && storage.nbytes() == bytes;
    }
  };
  using Freed = std::vector<c10::Storage>;

  void enter_graph_task(int64_t task, Freed& freed);
  void advance(record::Recording& recording, tape::SavedId saved, Freed& freed,
               std::vector<std::unique_ptr<record::Held>>& let_go);
  bool run_step(record::Recording& recording, Schedule::Step step, tape::ValueId asked);
  bool can_run(record::Recording& recording, std::span<const tape::NodeId> nodes);
  std::optional<c10::Storage> at_hand(record::Recording& recording, tape::ValueId value);
  void drop_expired(Schedule::Step step, Freed& freed);
  void drop_unneeded(record::Recording& recording, tape::ValueId asked,
                     std::vector<std::unique_ptr<record::Held>>& let_go);
  void note_asked(record::Recording& recording, tape::SavedId saved);
  void note_served(record::Recording& recording, tape::ValueId value, const c10::Storage& storage);
  /// Of the values that replays made, those that somebody still holds.
  int64_t own_bytes();
  record::Given replay(record::Recording& recording, tape::SavedId saved, Freed& freed);
  Cached* find_cached(tape::ValueId value);
  std::optional<record::Given> give_away(record::Recording& recording, tape::SavedId saved);
  void hold(const record::Recording& recording, std::span<const tape::SavedId> pending,
            Storages made);
  void served(tape::ValueId value, Freed& freed);
  void drop_boundaries(const record::Recording& recording, tape::ValueId asked, Freed& freed);
  [[nodiscard]] std::vector<tape::SavedId> pending(const record::Recording& recording,
                                                   tape::SavedId but) const;

  ska::flat_hash_map<tape::ValueId, Cached> cache_;
  bool has_boundaries_ = false;
  int64_t graph_task_ = record::SavedState::kNever;

  std::shared_ptr<const Schedule> schedule_;
  Schedule::Step next_step_ = 0;  ///< of the schedule
  /// What was given out and may still be alive; while a profile is made.
  std::vector<std::pair<tape::ValueId, c10::weak_intrusive_ptr<c10::StorageImpl>>> served_;
};

}  // namespace remat::replay
