#pragma once

#include <vector>

#include "remat/plan/trace.h"

namespace remat::plan {

/// A run of operators between two points that a single value crosses.
struct Segment {
  OpId first = 0;
  OpId end = 0;         ///< one behind the last
  ValueId in = kNone;   ///< the value that crosses into it; kNone at the start
  ValueId out = kNone;  ///< the value that crosses out of it; kNone at the end

  bool operator==(const Segment&) const = default;
};

/// A step's layers as the dataflow shows them, without the user's marks.
struct Segmentation {
  std::vector<Segment> fine;    ///< all single-value cuts; covers every operator
  std::vector<Segment> layers;  ///< `fine` joined to the period that repeats most
  /// Flag a value: read by operators all over forward (rotary tables, masks), so it crosses
  /// everywhere and counts for no cut; so do values that no operator makes.
  std::vector<uint8_t> global;
};

Segmentation segments_of(const Trace& trace);

/// The values that cross out of the segments.
std::vector<ValueId> boundaries(const std::vector<Segment>& segments);

/// Sets of boundaries that are worth trying as checkpoints: none, all, those of layers, and of
/// every k-th layer, large k ever further apart: neighbours give nearly the same plans.
std::vector<std::vector<ValueId>> boundary_sets(const Segmentation& segments);

}  // namespace remat::plan
