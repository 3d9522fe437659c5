#pragma once

#include <span>
#include <vector>

#include <c10/util/flat_hash_map.h>

#include "remat/record/recording.h"
#include "remat/replay/run.h"

/// Runs recorded operators again. Decides nothing: what runs and what is held follows from the
/// tape.
namespace remat::replay {

/// The values that replays of one recording made and that backward will ask for.
class Replayer final : public record::Source {
 public:
  c10::Storage fetch(record::Recording& recording, tape::SavedId saved) override;
  void forget(record::Recording& recording, tape::SavedId saved) override;
  void renumber(const std::vector<tape::ValueId>& values) override;
  [[nodiscard]] int64_t cached_bytes() const override;

 private:
  /// A value that a replay made.
  struct Cached {
    c10::Storage storage;
    uint32_t wanted_by = 0;  ///< pending saved tensors that are this value
    bool boundary = false;   ///< later replays start from it
  };
  using Freed = std::vector<c10::Storage>;

  void enter_graph_task(int64_t task, Freed& freed);
  c10::Storage replay(record::Recording& recording, tape::SavedId saved, Freed& freed);
  void hold(const record::Recording& recording, std::span<const tape::SavedId> pending,
            Storages made);
  void served(tape::ValueId value, Freed& freed);
  void drop_boundaries(const record::Recording& recording, Freed& freed);
  [[nodiscard]] std::vector<tape::SavedId> pending(const record::Recording& recording,
                                                   tape::SavedId but) const;

  ska::flat_hash_map<tape::ValueId, Cached> cache_;
  bool has_boundaries_ = false;
  int64_t graph_task_ = record::SavedState::kNever;
};

}  // namespace remat::replay
