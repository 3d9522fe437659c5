#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "remat/tape/ids.h"

namespace remat::record {

/// What is measured while a step is recorded and its backward runs, for a planner.
class Profile {
 public:
  /// `live` bytes are there before the step: none of them is the step's.
  explicit Profile(int64_t live) : own_(live), live_before_(live) {}

  /// The backward of one autograd node that asked for saved values.
  struct Step {
    const void* node = nullptr;   ///< tells nodes apart while the graph lives
    std::vector<uint32_t> packs;  ///< what it asked for, by position in `packs`
    int64_t extra_bytes = 0;      ///< the most that was live until the next step beyond the
                                  ///< recording's own
    int64_t before_bytes = 0;     ///< live when it asked for the first of them, likewise: replays
                                  ///< for it run beside that
  };

  std::vector<double> node_us;  ///< by NodeId: time of the operator, microseconds
  /// By NodeId: the most that was live from the operator on until the next one began, over what was
  /// live before the step. Whatever holds it: training, autograd, a policy.
  std::vector<int64_t> node_peak;
  /// By NodeId: by how much what is live grew while the operator ran, at most.
  std::vector<int64_t> node_growth;
  /// By BufferId: the last node before which a buffer that a node made was still there; shorter
  /// where none of the others was. Of those that a policy keeps, no longer looked at.
  std::vector<tape::NodeId> there_until;
  std::vector<tape::BufferId> there;  ///< the buffers that were there when last looked at
  std::vector<tape::ValueId> packs;   ///< the values that autograd saved, in that order
  std::vector<Step> steps;            ///< in the order of backward

  /// What the counting allocator says: bytes that are live, and the most that it saw since it was
  /// asked last.
  struct Bytes {
    int64_t live;
    int64_t window_peak;
  };

  /// An operator is about to run, or has run.
  void operator_begins(Bytes bytes);
  void operator_ends(Bytes bytes);
  /// The operator became a node.
  void node_made();
  /// The buffer is there before the node with this number.
  void found(tape::BufferId buffer, tape::NodeId before);

  /// Backward asks for a saved value, and has it. `own` is the part of the live bytes that is the
  /// recording's: what it holds and what it has served. The window begins when a value is served.
  void value_asked(const void* node, uint32_t pack, Bytes bytes, int64_t own);
  void value_served(int64_t own);
  /// So much was live at most since a value was served last.
  void saw(int64_t window_peak);

  /// The most that was live until then, or until the last saved value was asked for, bytes.
  [[nodiscard]] int64_t peak() const { return peak_; }
  /// Forward and backward until the last saved value was served, without replays. Microseconds.
  [[nodiscard]] double base_us() const { return base_us_; }

 private:
  using Clock = std::chrono::steady_clock;
  static double us_since(Clock::time_point then) {
    return std::chrono::duration<double, std::micro>(Clock::now() - then).count();
  }

  void saw_behind_node(int64_t window_peak);

  Clock::time_point operator_began_;
  int64_t operator_began_with_ = 0;  ///< live bytes
  double operator_us_ = 0;
  int64_t operator_growth_ = 0;
  int64_t operator_peak_ = 0;
  Clock::time_point resumed_ = Clock::now();  ///< training goes on: it began, or a value was served
  double base_us_ = 0;
  int64_t peak_ = 0;
  int64_t own_;  ///< with what was live before the step
  int64_t live_before_;
};

}  // namespace remat::record
