#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "models/decoder.h"

namespace remat::finetune {

struct GenerationConfig {
  int64_t max_new_tokens = 64;
  double temperature = 0;  ///< 0: always the likeliest token
  double top_p = 1;        ///< of the likeliest tokens only those that make up this much
  uint64_t seed = 42;
};

/// Continues `prompt` with a key-value cache until a token that ends a text, which is not among the
/// tokens returned, or until there are enough. `on_token` sees each as it comes; false stops.
/// Throws Error{usage} on an empty prompt and on numbers out of range.
std::vector<int64_t> generate(const models::Decoder& decoder, const std::vector<int64_t>& prompt,
                              const GenerationConfig& config,
                              const std::function<bool(int64_t)>& on_token = {});

}  // namespace remat::finetune
