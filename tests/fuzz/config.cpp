// Any text is refused with an Error, or is a configuration from which a decoder can be laid out.

#include "models/config.h"

#include <cstdlib>
#include <string_view>

#include "models/error.h"

namespace {

using remat::models::Config;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_invariants(const Config& config) {
  for (const int64_t size :
       {config.vocab_size, config.hidden_size, config.intermediate_size, config.num_hidden_layers,
        config.num_attention_heads, config.num_key_value_heads, config.head_dim}) {
    require(size > 0);
  }
  require(config.num_attention_heads % config.num_key_value_heads == 0);
  require(config.head_dim % 2 == 0);
  require(config.sliding_window.size() == static_cast<size_t>(config.num_hidden_layers));
  require(config.rope.theta > 0 && config.rope.factor > 0 && config.rms_norm_eps > 0);
  // Numbers of elements have to be numbers.
  int64_t elements = 0;
  require(!__builtin_mul_overflow(config.num_attention_heads, config.head_dim, &elements));
  require(!__builtin_mul_overflow(config.vocab_size, config.hidden_size, &elements));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    check_invariants(remat::models::parse_config(
        std::string_view(reinterpret_cast<const char*>(data), size), "fuzzed"));
  } catch (const remat::models::Error&) {
    // What a bad file has to lead to.
  }
  return 0;
}
