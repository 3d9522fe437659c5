#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Decoders of the Llama family, their files and their tokenizers. Knows nothing of remat: whoever
/// trains a decoder applies recomputation and adapters from outside.
namespace remat::models {

enum class Family : uint8_t { llama, mistral, qwen2, qwen3 };

/// "llama", as `model_type` spells it.
std::string_view name_of(Family family);

/// How the angles of rotary position embeddings are made (Su et al. 2021, arXiv 2104.09864).
struct RopeConfig {
  enum class Scaling : uint8_t {
    none,
    linear,  ///< frequencies divided by `factor` (Chen et al. 2023, arXiv 2306.15595)
    llama3,  ///< only low frequencies are, with a smooth passage between (Llama 3.1)
  };
  Scaling scaling = Scaling::none;
  double theta = 10000.0;
  double factor = 1.0;
  // Of llama3 alone.
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 0;
};

/// What config.json says of a decoder, defaults filled in as transformers does.
struct Config {
  Family family = Family::llama;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;  ///< divides num_attention_heads
  int64_t head_dim = 0;             ///< even; need not be hidden_size / num_attention_heads
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 0.0;

  bool tie_word_embeddings = false;  ///< the head is the embedding: no lm_head.weight
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;  ///< RMS norm of every query and key head, before rope

  /// One a layer: how many keys a query sees, itself among them; 0: all before it.
  std::vector<int64_t> sliding_window;
  RopeConfig rope;

  std::optional<int64_t> bos_token_id;
  std::vector<int64_t> eos_token_ids;
  std::string dtype = "float32";  ///< of the stored weights: float32, bfloat16 or float16
};

/// Reads config.json of transformers 4 (rope_theta, rope_scaling, torch_dtype) and 5
/// (rope_parameters, dtype). Throws Error on a file that is missing or no JSON, on values that are
/// missing, of another type or impossible, and on what no decoder here computes: another
/// architecture, activation, rope or quantization.
Config read_config(const std::filesystem::path& folder);

/// The same of the text of such a file; `file` is what errors name.
Config parse_config(std::string_view text, const std::string& file);

/// "llama, mistral, qwen2, qwen3": what `model_type` may be.
std::string supported_families();

}  // namespace remat::models
