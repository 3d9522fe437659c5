#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "remat/plan/planner.h"

namespace remat {

/// How much memory a training step may take, bytes of CPU tensors. Exactly one of the two is set.
struct Budget {
  /// What a step may add to what is live when it begins: saved tensors, gradients, temporaries.
  int64_t activation_bytes = 0;
  /// Everything that is live at any time of a step: parameters, optimizer state and inputs as well.
  int64_t memory_bytes = 0;
};

/// No plan for a step fits its budget. The text names the least that does, and what takes most.
class DoesNotFit : public std::runtime_error {
 public:
  DoesNotFit(const std::string& text, int64_t least_bytes)
      : std::runtime_error(text), least_bytes_(least_bytes) {}
  /// The least budget that fits, of the kind that was given.
  [[nodiscard]] int64_t least_bytes() const { return least_bytes_; }

 private:
  int64_t least_bytes_;
};

/// What became of the steps of a session so far.
struct SessionReport {
  int64_t steps = 0;
  int64_t followed = 0;          ///< steps whose backward went by a plan from end to end
  int64_t plans = 0;             ///< one for each sequence of operators and sizes that was met
  int64_t budget_bytes = 0;      ///< for activations, of the last step
  int64_t planned_peak = 0;      ///< bytes, as simulated, of the plan of the last step; 0: no plan
  int64_t measured_peak = 0;     ///< bytes over what was live when the last step began
  double recompute_percent = 0;  ///< of forward and backward, of the plan of the last step
  double plan_seconds = 0;       ///< spent on planning, all plans together
};

/// Trains in a byte budget: no annotations, exact gradients, the least recomputation that planners
/// find (docs/planner.md).
///
///     remat::memory::install();  // first of all: budgets are of counted bytes
///     remat::Session session({.memory_bytes = 2 << 30});
///     for (auto& batch : batches) {
///       auto step = session.step();
///       model->forward(batch).loss.backward();
///       step.end();
///     }
///
/// The first step of a kind (a sequence of operators and sizes) keeps nothing and is measured; from
/// then on steps of that kind follow a plan, made again once three of them were timed. A smaller
/// batch follows the plan of a larger one, until its size has come a few times and gets a plan of
/// its own. A step that leaves its plan is computed as exactly, in about the memory of a first
/// step, and the next one is measured.
///
/// A step is one forward and one backward pass on the thread that calls step(); recording ends
/// where backward begins. Not thread safe.
class Session {
 public:
  /// `known`: plans made before, of this or another run (plan::read_plan). A kind of step that one
  /// of them is for, by its fingerprint, follows it if it fits, on other sizes too; others are
  /// planned. Throws c10::Error unless exactly one of the budgets is positive and memory::install()
  /// was called.
  explicit Session(const Budget& budget, std::vector<plan::Plan> known = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  class Step {
   public:
    Step(Step&& other) noexcept;
    Step& operator=(Step&&) = delete;
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    /// Ends the step; an error is then lost, end() raises it.
    ~Step();

    /// After backward. Makes a plan where the step had none. Throws DoesNotFit.
    void end();

   private:
    friend class Session;
    explicit Step(Session* session) : session_(session) {}
    Session* session_;
  };

  /// Begins a step. Ends the one before, if it did not end. Throws c10::Error in an open region,
  /// and DoesNotFit where a known kind of step no longer fits.
  Step step();

  [[nodiscard]] const SessionReport& report() const;
  /// The plan of the last step; nullptr where it had none.
  [[nodiscard]] const plan::Plan* plan() const;
  /// The step that was measured last, as the planner saw it; nullptr where none was.
  [[nodiscard]] const plan::Trace* trace() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace remat
