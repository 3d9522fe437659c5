#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "remat/plan/trace.h"

namespace remat::plan {

/// For each backward step the operators that run again just before it, ascending. This is the whole
/// plan: what is kept, cached and freed follows from exact liveness.
using Replay = Lists;

/// An event of a step: an operator in forward, an operator that runs again, or a backward step.
struct Instant {
  enum class Kind : uint8_t { forward, replay, backward };
  Kind kind = Kind::forward;
  OpId op = kNone;      ///< of forward and replay; of a backward step the operator it belongs to
  StepId step = kNone;  ///< of replay and backward

  bool operator==(const Instant&) const = default;
};

/// "forward of operator 12 (mm)".
std::string to_text(const Instant& instant, const Trace& trace);

/// What a plan costs.
struct Cost {
  int64_t peak = 0;  ///< bytes
  double us = 0;     ///< of recomputation, microseconds
};

/// Plays a plan over the whole step. A value lives from the operator that makes it until its last
/// read before it is made again, in forward at least as long as the program holds it; an operator's
/// inputs, results and workspace are in memory together, where it runs again with what is not ours,
/// and so is what a backward step reads, with its extra bytes. The allocator's rounding is not
/// counted. Linear in the events; keeps its workspace between runs.
class Simulator {
 public:
  /// `trace` has to outlive the simulator.
  explicit Simulator(const Trace& trace);

  /// Throws std::invalid_argument when the rows are not the trace's steps, or when something is
  /// read that is not there.
  Cost run(const Replay& replay);

  // ---- Of the last run
  // ---------------------------------------------------------------------------

  [[nodiscard]] Instant peak_instant() const;
  /// Bytes during each event, workspaces and extra bytes included.
  [[nodiscard]] std::span<const int64_t> profile() const { return bytes_; }
  [[nodiscard]] Instant instant(size_t event) const;

 private:
  void list_events(const Replay& replay);
  void place_instances();
  void place(ValueId value, int32_t born);

  const Trace& trace_;
  std::vector<int32_t> events_;  ///< an operator, or -1 - step; forward first
  std::vector<int64_t>
      beside_;                  ///< by event, bytes beside the values: workspaces, what is not ours
  std::vector<int32_t> dies_;   ///< for every value its last read in the part walked; -1: none
  std::vector<int64_t> bytes_;  ///< for every event, with one more
  size_t peak_event_ = 0;
};

}  // namespace remat::plan
