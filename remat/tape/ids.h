#pragma once

#include <cstdint>

/// The record of what a region executed, as plain data. Knows no tensor and no libtorch.
namespace remat::tape {

using BufferId = uint32_t;
using ValueId = uint32_t;
using NodeId = uint32_t;
using RegionId = uint32_t;
using DrawId = uint32_t;
using SavedId = uint32_t;

/// "There is none", for every kind of id.
inline constexpr uint32_t kNone = UINT32_MAX;

/// The region that every other region of a tape lies in.
inline constexpr RegionId kOutermost = 0;

}  // namespace remat::tape
