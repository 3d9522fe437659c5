#pragma once

#include <functional>
#include <span>
#include <vector>

#include "remat/record/recording.h"

namespace remat::replay {

/// Storages by ValueId; an empty one where there is none.
using Storages = std::vector<c10::Storage>;

/// Runs `nodes`, ascending, and returns the storages of the values flagged in `wanted`. `sources`
/// gives the values that the nodes read and none of them makes. Every other value is freed at its
/// last use. The caller holds the lock.
Storages run(record::Recording& recording, std::span<const tape::NodeId> nodes,
             const std::vector<bool>& wanted,
             const std::function<c10::Storage(tape::ValueId)>& sources);

}  // namespace remat::replay
