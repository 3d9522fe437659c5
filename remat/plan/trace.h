#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "remat/plan/lists.h"

/// From the record of a training step and a byte budget to a plan: what to keep, what to recompute.
/// Sees names, times and bytes, never a tensor.
namespace remat::plan {

using OpId = int32_t;     ///< position of an operator in forward
using ValueId = int32_t;  ///< one version of one buffer
using StepId = int32_t;   ///< position of a node's backward in the order in which backward runs

inline constexpr int32_t kNone = -1;

/// A training step as it is written in files ("remat-trace-1", docs/planner.md).
struct TraceDocument {
  struct Op {
    std::string name;
    double us = 0;  ///< measured time in forward, microseconds
    std::vector<ValueId> reads = {};
    std::vector<ValueId> makes = {};
    bool random = false;
    uint64_t hash = 0;  ///< of schema and wiring, sizes not among them; 0 is unknown
    /// Live while it runs in forward and no value: its workspace, what others made. Negative where
    /// it writes in place: what it makes then lies where one of its arguments was.
    int64_t extra_bytes = 0;
    int64_t workspace = 0;  ///< of it what is its own, bytes: live when it runs again as well
  };
  struct Step {
    OpId op = kNone;  ///< the operator whose backward this is; kNone is unknown
    std::vector<ValueId> reads = {};
    int64_t extra_bytes = 0;   ///< live here and not ours: gradients, workspaces
    int64_t before_bytes = 0;  ///< likewise, while operators run again for this step
  };
  double base_us = 0;  ///< forward and backward without recomputation
  std::vector<Op> ops;
  std::vector<int64_t> bytes;  ///< of every value
  /// By value, the last operator of forward before which the program still held it, though no
  /// operator may read it any more; kNone is unknown. Empty: unknown of all.
  std::vector<OpId> held_until;
  std::vector<Step> steps;
};

/// The planning problem: a checked step with what every planner asks of it at hand.
/// Parameters, inputs and constants are no values: they are there whatever the plan.
/// A value that no operator makes is in memory from the start and cannot be made again.
class Trace {
 public:
  /// Throws std::invalid_argument, naming operator or step, when a value is out of range, made
  /// twice, read before it is made, or when a time or a size is negative.
  explicit Trace(TraceDocument document);

  [[nodiscard]] const TraceDocument& document() const { return document_; }
  [[nodiscard]] int32_t ops() const { return reads_.rows(); }
  [[nodiscard]] int32_t values() const { return static_cast<int32_t>(producer_.size()); }
  [[nodiscard]] int32_t steps() const { return step_reads_.rows(); }
  [[nodiscard]] double base_us() const { return document_.base_us; }

  [[nodiscard]] const std::string& name(OpId op) const { return document_.ops[index(op)].name; }
  [[nodiscard]] double us(OpId op) const { return us_[index(op)]; }
  [[nodiscard]] std::span<const ValueId> reads(OpId op) const { return reads_[op]; }
  [[nodiscard]] std::span<const ValueId> makes(OpId op) const { return makes_[op]; }
  /// Whether backward needs a result of this operator, or of one that reads its results.
  [[nodiscard]] bool relevant(OpId op) const { return relevant_[index(op)] != 0; }
  /// Says which operator this is, so that a plan can be checked against a running step: the hash of
  /// the document, else one of name and wiring. Sizes do not count.
  [[nodiscard]] uint64_t hash(OpId op) const;
  [[nodiscard]] int64_t extra_in_forward(OpId op) const {
    return document_.ops[index(op)].extra_bytes;
  }
  /// Beside the values, when the operator runs again before the step.
  [[nodiscard]] int64_t extra_in_replay(OpId op, StepId step) const {
    return document_.ops[index(op)].workspace + document_.steps[index(step)].before_bytes;
  }

  [[nodiscard]] int64_t bytes(ValueId value) const { return document_.bytes[index(value)]; }
  [[nodiscard]] OpId producer(ValueId value) const { return producer_[index(value)]; }
  /// Operators that read the value, ascending.
  [[nodiscard]] std::span<const OpId> readers(ValueId value) const { return readers_[value]; }
  /// Backward steps that read the value, ascending.
  [[nodiscard]] std::span<const StepId> wanted_by(ValueId value) const { return wanted_by_[value]; }
  /// Whether autograd saves it.
  [[nodiscard]] bool saved(ValueId value) const { return !wanted_by(value).empty(); }
  /// The last operator of forward that makes or reads the value; -1 for one that is only there.
  [[nodiscard]] OpId last_touch(ValueId value) const {
    return readers(value).empty() ? producer(value) : readers(value).back();
  }
  /// The last operator of forward beside which the value is in memory whatever the plan: it touches
  /// the value, or the program still holds it.
  [[nodiscard]] OpId last_forward(ValueId value) const { return last_forward_[index(value)]; }
  /// Whether dropping the value is possible and may change anything.
  [[nodiscard]] bool droppable(ValueId value) const {
    return producer(value) != kNone && relevant(producer(value));
  }

  [[nodiscard]] std::span<const ValueId> step_reads(StepId step) const { return step_reads_[step]; }
  [[nodiscard]] OpId step_op(StepId step) const { return document_.steps[index(step)].op; }
  [[nodiscard]] int64_t extra(StepId step) const {
    return document_.steps[index(step)].extra_bytes;
  }

 private:
  static size_t index(int32_t id) { return static_cast<size_t>(id); }
  void read_ops();
  template <typename Where>
  void check(ValueId value, const Where& where) const;
  void read_steps();
  void find_readers();
  void mark_relevant();

  TraceDocument document_;
  std::vector<double> us_;
  std::vector<uint8_t> relevant_;
  std::vector<OpId> producer_;
  std::vector<OpId> last_forward_;
  Lists reads_;
  Lists makes_;
  Lists step_reads_;
  Lists readers_;
  Lists wanted_by_;
};

}  // namespace remat::plan
