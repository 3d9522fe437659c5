#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

/// What a training tells of itself while it runs.
namespace remat::finetune {

struct StartReport {
  int64_t steps = 0;       ///< of the whole training
  int64_t first_step = 0;  ///< steps done before, when resuming
  int64_t batch_size = 0;  ///< rows of a micro-batch
  int64_t accumulation = 0;
  int64_t rows = 0;
  int64_t tokens = 0;          ///< of one epoch, without padding
  int64_t trained_tokens = 0;  ///< of them, trained on
  int64_t longest_row = 0;     ///< tokens
  int64_t truncated_rows = 0;
  int64_t eval_rows = 0;
  int64_t parameters = 0;
  int64_t trained_parameters = 0;
  int64_t weight_bytes = 0;  ///< of tensors, once the model is loaded
};

struct StepReport {
  int64_t step = 0;   ///< done, the first is 1
  int64_t steps = 0;  ///< of the whole training
  double epoch = 0;
  double loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;     ///< before clipping
  int64_t tokens = 0;       ///< of this step, without padding
  int64_t tokens_seen = 0;  ///< since the training began
  double seconds = 0;       ///< forward, backward and optimizer
  double tokens_per_second = 0;
  int64_t peak_bytes = 0;  ///< most bytes of tensors alive during the step, weights included
  /// The most between the step's first forward and its last backward, beyond what lived before.
  int64_t activation_peak_bytes = 0;
  int64_t after_forward_bytes = 0;  ///< alive after the first forward, beyond what lived before
  int64_t ops_replayed = 0;         ///< since the process began
  int64_t budget_bytes = 0;         ///< for activations; 0: no budget
  int64_t planned_peak_bytes = 0;   ///< of activations, by the plan of the last micro-batch
  double seconds_left = 0;          ///< of training, at the mean pace so far
};

struct EvalReport {
  int64_t step = 0;
  double loss = 0;  ///< mean over trained tokens
  double perplexity = 0;
  int64_t rows = 0;
  int64_t tokens = 0;  ///< trained ones
  double seconds = 0;
};

struct SaveReport {
  int64_t step = 0;
  std::filesystem::path folder;
  int64_t bytes = 0;
  double seconds = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_start(const StartReport& /*report*/) {}
  virtual void on_step(const StepReport& /*report*/) {}
  virtual void on_evaluation(const EvalReport& /*report*/) {}
  virtual void on_sample(int64_t /*step*/, const std::string& /*text*/) {}
  virtual void on_save(const SaveReport& /*report*/) {}
  virtual void on_warning(const std::string& /*text*/) {}
};

}  // namespace remat::finetune
