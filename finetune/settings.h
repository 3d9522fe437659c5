#pragma once

#include <cstdint>
#include <string>

#include "finetune/lora.h"
#include "finetune/optimizer.h"

namespace remat::finetune {

inline constexpr int64_t kLargestBatch = 0;

/// What a training is told: the flags of `remat train`, by their names. Negative: not given.
struct Settings {
  // What to train, on what.
  std::string model;
  std::string data;
  std::string eval_data;
  std::string method = "lora";  ///< or full
  std::string adapter;          ///< a folder of PEFT to start from, empty: a fresh one
  LoraConfig lora;
  int64_t max_length = 1024;
  bool shuffle = true;

  // Memory and arithmetic.
  std::string dtype = "fp32";  ///< of the weights: fp32, bf16, or auto, as they are stored
  bool bf16 = false;           ///< run the layers under bfloat16 autocast
  std::string activation_checkpointing = "none";
  std::string activation_budget;  ///< bytes or a size; empty: none
  std::string memory_budget;      ///< likewise, of all tensors
  std::string plan;               ///< file of a plan to follow where it is for a step and fits
  int64_t threads = 0;            ///< 0: libtorch's choice

  // Optimisation.
  int64_t batch_size = 1;  ///< kLargestBatch: as many rows as fit the budget
  int64_t accumulation = 1;
  double learning_rate = -1;  ///< not given: 2e-4 for LoRA, 2e-5 for full
  std::string schedule = "linear";
  double warmup = 0;
  OptimizerConfig optimizer;
  double max_grad_norm = 1;  ///< 0: no clipping
  double epochs = 1;
  int64_t max_steps = -1;  ///< not given: as many as the epochs have
  uint64_t seed = 42;

  // What comes out.
  std::string output = "out";
  int64_t save_steps = 500;  ///< 0: only at the end
  int64_t save_total_limit = 2;
  bool overwrite = false;  ///< remove the checkpoints of an earlier training in `output`
  std::string resume;      ///< empty: no; "auto": the newest in `output`; or a folder
  int64_t eval_steps = 0;  ///< 0: only at the end
  int64_t logging_steps = 1;
  std::string sample_prompt;
  int64_t sample_tokens = 64;

  [[nodiscard]] bool is_lora() const { return method == "lora"; }
  [[nodiscard]] double rate() const {
    if (learning_rate >= 0) return learning_rate;
    return is_lora() ? 2e-4 : 2e-5;
  }
};

}  // namespace remat::finetune
