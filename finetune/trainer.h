#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "finetune/checkpoint.h"
#include "finetune/dataset.h"
#include "finetune/listener.h"
#include "finetune/model.h"
#include "finetune/optimizer.h"
#include "finetune/sampler.h"
#include "finetune/schedule.h"
#include "finetune/settings.h"
#include "finetune/state.h"
#include "finetune/step.h"
#include "models/tokenizer.h"

namespace remat::finetune {

/// One training, from the settings to OUT/final. It may stop after any step, and goes on from a
/// checkpoint as if it had never stopped, bit for bit.
class Trainer {
 public:
  /// Loads data and model, and where settings.resume says so a checkpoint. Throws Error and
  /// models::Error. `listener` outlives the trainer.
  Trainer(Settings settings, Listener& listener);

  enum class End { done, stopped };

  /// Trains. Once `stop` is true the step under way is finished and saved, and End::stopped
  /// returned. Throws Error{non_finite} where the loss is no number any more, before the weights
  /// are updated by it.
  End run(const std::atomic<bool>& stop);

 private:
  [[nodiscard]] Sampler make_sampler();
  void resume();
  void train_step();
  Passes passes_of(const std::vector<Batch>& batches);
  void report_step(const Passes& passes, double grad_norm, double rate, double seconds);
  void evaluate_and_sample();
  void save_checkpoint();
  void save_final();
  [[nodiscard]] bool is_due(int64_t interval) const;
  [[nodiscard]] StartReport start_report() const;

  // Each is made of those before it.
  Settings settings_;
  Listener& listener_;
  std::filesystem::path checkpoint_;  ///< that it goes on from; empty: it starts
  DataFiles files_;
  Dataset train_;
  std::optional<Dataset> valid_;
  Model model_;
  std::unique_ptr<Session> session_;  ///< where there is a budget
  Optimizer optimizer_;
  Sampler sampler_;
  int64_t steps_;  ///< of the whole training
  Schedule schedule_;
  Checkpoints checkpoints_;
  State state_;
  std::optional<models::Tokenizer> tokenizer_;  ///< where there are samples to show
  int64_t first_step_ = 0;                      ///< done before, when resuming
  double seconds_here_ = 0;                     ///< of steps of this process
};

}  // namespace remat::finetune
