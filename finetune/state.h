#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "finetune/settings.h"

namespace remat::finetune {

/// Where a training stands, beside its weights and its optimizer: state.json of a checkpoint. The
/// schedule, the sampler and the random numbers follow from the step and the settings (see
/// Note [One seed] in trainer.cpp).
struct State {
  int64_t step = 0;  ///< done
  int64_t tokens_seen = 0;
  double seconds = 0;  ///< of training
  // What must be the same when it goes on, or it would not be as if it had never stopped.
  std::string method;
  uint64_t seed = 0;
  uint32_t data_crc32 = 0;
  int64_t batch_size = 0;
  int64_t accumulation = 0;
};

/// At the start of a training: nothing done.
State initial_state(const Settings& settings, const std::filesystem::path& data);

void save_state(const State& state, const std::filesystem::path& folder);

/// The rows of a micro-batch of the training that the checkpoint is of. Throws as load_state does.
int64_t saved_batch_size(const std::filesystem::path& folder);

/// Throws Error{model} where the folder has no state or one that went on from other settings or
/// data than `expected`, naming the difference.
State load_state(const std::filesystem::path& folder, const State& expected);

}  // namespace remat::finetune
