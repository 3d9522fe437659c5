#include "models/config.h"

#include <array>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "models/error.h"

namespace remat::models {

using nlohmann::json;

namespace {

constexpr auto kFamilies = std::to_array<std::string_view>({"llama", "mistral", "qwen2", "qwen3"});

// Sizes that no real model comes near to. Products of two stay within 64 bits.
constexpr uint64_t kLargestSize = uint64_t{1} << 30;
constexpr int64_t kMostLayers = 10'000;

/// For errors: a hostile value may be megabytes long.
std::string shown(const json& value) {
  constexpr size_t kLongest = 80;
  const auto text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

/// Reads values of one JSON object, and names them in errors.
class Reader {
 public:
  Reader(const json& object, const std::string& file, std::string prefix = "")
      : object_(object), file_(file), prefix_(std::move(prefix)) {}

  [[noreturn]] void fail(const std::string& key, const std::string& cause) const {
    throw Error(file_, prefix_ + key, cause);
  }

  /// Null where it is missing or null: transformers writes null for "not set".
  [[nodiscard]] const json* find(const std::string& key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  /// True also where it is null.
  [[nodiscard]] bool has(const std::string& key) const { return object_.contains(key); }

  [[nodiscard]] int64_t size(const std::string& key) const {
    const auto* value = find(key);
    if (value == nullptr) fail(key, "is missing");
    return as_size(key, *value);
  }
  [[nodiscard]] int64_t size(const std::string& key, int64_t otherwise) const {
    const auto* value = find(key);
    return value == nullptr ? otherwise : as_size(key, *value);
  }

  /// As size(), but may be 0.
  [[nodiscard]] int64_t count(const std::string& key, int64_t otherwise) const {
    const auto* value = find(key);
    return value != nullptr && *value == 0 ? 0 : size(key, otherwise);
  }

  [[nodiscard]] double positive(const std::string& key) const {
    const auto* value = find(key);
    if (value == nullptr) fail(key, "is missing");
    return as_positive(key, *value);
  }
  [[nodiscard]] double positive(const std::string& key, double otherwise) const {
    const auto* value = find(key);
    return value == nullptr ? otherwise : as_positive(key, *value);
  }

  [[nodiscard]] bool flag(const std::string& key, bool otherwise) const {
    const auto* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) fail(key, "must be true or false, not " + shown(*value));
    return value->get<bool>();
  }

  [[nodiscard]] std::string text(const std::string& key, const std::string& otherwise) const {
    const auto* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) fail(key, "must be a string, not " + shown(*value));
    return value->get<std::string>();
  }

  /// A token id.
  [[nodiscard]] int64_t id(const std::string& key, const json& value) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > kLargestSize) {
      fail(key, "must be a token id, not " + shown(value));
    }
    return value.get<int64_t>();
  }

  [[nodiscard]] Reader inner(const std::string& key) const {
    const auto* value = find(key);
    if (value == nullptr || !value->is_object()) fail(key, "must be an object");
    return {*value, file_, prefix_ + key + "."};
  }

 private:
  [[nodiscard]] int64_t as_size(const std::string& key, const json& value) const {
    // Unsigned first: compared as signed, 2^64 - 1 is -1.
    if (!value.is_number_unsigned() || value.get<uint64_t>() - 1 >= kLargestSize) {
      fail(key, fmt::format("must be an integer from 1 to {}, not {}", kLargestSize, shown(value)));
    }
    return value.get<int64_t>();
  }

  [[nodiscard]] double as_positive(const std::string& key, const json& value) const {
    if (!value.is_number() || !(value.get<double>() > 0)) {
      fail(key, "must be a number above 0, not " + shown(value));
    }
    return value.get<double>();
  }

  const json& object_;
  const std::string& file_;
  std::string prefix_;  // "rope_scaling."
};

Family family_of(const Reader& reader) {
  const auto type = reader.text("model_type", "");
  for (size_t family = 0; family < kFamilies.size(); ++family) {
    if (kFamilies.at(family) == type) return static_cast<Family>(family);
  }
  reader.fail("model_type",
              fmt::format("\"{}\" is not supported; supported are {}", type, supported_families()));
}

/// What changes the numbers and is computed by no decoder here.
void refuse_unsupported(const Reader& reader) {
  const auto activation = reader.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    reader.fail("hidden_act", fmt::format("\"{}\" is not supported; only silu is", activation));
  }
  if (reader.find("quantization_config") != nullptr) {
    reader.fail("quantization_config",
                "quantized weights are not supported; convert the model to bf16 with: python -m "
                "remat.prepare model SOURCE OUT");
  }
  if (const auto* dropout = reader.find("attention_dropout"); dropout != nullptr && *dropout != 0) {
    reader.fail("attention_dropout", "is not supported; set it to 0");
  }
  if (reader.positive("partial_rotary_factor", 1.0) != 1.0) {
    reader.fail("partial_rotary_factor", "is not supported; only 1 is");
  }
}

// ---- Sizes
// ---------------------------------------------------------------------------------------

void read_sizes(const Reader& reader, Config& config) {
  config.vocab_size = reader.size("vocab_size");
  config.hidden_size = reader.size("hidden_size");
  config.intermediate_size = reader.size("intermediate_size");
  config.num_hidden_layers = reader.size("num_hidden_layers");
  if (config.num_hidden_layers > kMostLayers) {
    reader.fail("num_hidden_layers", fmt::format("is more than {}", kMostLayers));
  }
  config.num_attention_heads = reader.size("num_attention_heads");
  config.num_key_value_heads = reader.size("num_key_value_heads", config.num_attention_heads);
  config.max_position_embeddings = reader.size("max_position_embeddings", 2048);
  config.rms_norm_eps = reader.positive("rms_norm_eps", 1e-6);
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    reader.fail("num_key_value_heads",
                fmt::format("{} does not divide the {} attention heads", config.num_key_value_heads,
                            config.num_attention_heads));
  }
}

void read_head_dim(const Reader& reader, Config& config) {
  // Qwen3 has a default of its own; elsewhere the heads share the hidden size.
  const int64_t shared = config.hidden_size / config.num_attention_heads;
  config.head_dim = reader.size("head_dim", config.family == Family::qwen3 ? 128 : shared);
  if (reader.find("head_dim") == nullptr && config.family != Family::qwen3 &&
      config.hidden_size % config.num_attention_heads != 0) {
    reader.fail("hidden_size", fmt::format("{} is not a multiple of the {} attention heads",
                                           config.hidden_size, config.num_attention_heads));
  }
  if (config.head_dim % 2 != 0 || config.head_dim > 65'536) {
    reader.fail("head_dim", fmt::format("must be even and at most 65536, not {}", config.head_dim));
  }
}

void read_biases(const Reader& reader, Config& config) {
  const bool attention_bias = reader.flag("attention_bias", false);
  switch (config.family) {
    case Family::llama:
      config.qkv_bias = config.o_bias = attention_bias;
      config.mlp_bias = reader.flag("mlp_bias", false);
      break;
    case Family::mistral:
      break;
    case Family::qwen2:
      config.qkv_bias = true;
      break;
    case Family::qwen3:
      config.qkv_bias = config.o_bias = attention_bias;
      config.qk_norm = true;
      break;
  }
}

// ---- Sliding window
// ------------------------------------------------------------------------------

/// layer_types of transformers 5: which layers slide. Empty where the file has none.
std::vector<bool> read_layer_types(const Reader& reader, int64_t layers) {
  const auto* types = reader.find("layer_types");
  if (types == nullptr) return {};
  if (!types->is_array() || static_cast<int64_t>(types->size()) != layers) {
    reader.fail("layer_types", fmt::format("must be an array of {} names", layers));
  }
  std::vector<bool> slides;
  for (const auto& type : *types) {
    if (type != "full_attention" && type != "sliding_attention") {
      reader.fail("layer_types", shown(type) +
                                     " is not supported; supported are full_attention and "
                                     "sliding_attention");
    }
    slides.push_back(type == "sliding_attention");
  }
  return slides;
}

void read_sliding_window(const Reader& reader, Config& config) {
  const int64_t layers = config.num_hidden_layers;
  config.sliding_window.assign(static_cast<size_t>(layers), 0);
  if (config.family == Family::llama) return;
  if (config.family == Family::mistral) {
    // transformers takes a missing key as 4096, but null as no window.
    const int64_t window = reader.has("sliding_window") ? reader.size("sliding_window", 0) : 4096;
    config.sliding_window.assign(static_cast<size_t>(layers), window);
    return;
  }
  if (!reader.flag("use_sliding_window", false)) return;
  const int64_t window = reader.has("sliding_window") ? reader.size("sliding_window", 0) : 4096;
  const int64_t first = reader.count("max_window_layers", 28);
  const auto slides = read_layer_types(reader, layers);
  for (int64_t layer = 0; layer < layers; ++layer) {
    const auto place = static_cast<size_t>(layer);
    const bool slide = slides.empty() ? layer >= first : slides[place];
    config.sliding_window[place] = slide ? window : 0;
  }
}

// ---- Rope
// ----------------------------------------------------------------------------------------

/// Note [Where rope is configured]
/// transformers 4 has rope_theta beside rope_scaling, null without scaling; 5 has both in
/// rope_parameters. Where several are there, rope_scaling goes before rope_parameters, and a theta
/// inside either before the one outside.
void read_rope(const Reader& reader, Config& config) {
  auto& rope = config.rope;
  rope.theta = reader.positive("rope_theta", 10'000.0);
  const char* key = reader.find("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters";
  if (reader.find(key) == nullptr) return;

  const auto inner = reader.inner(key);
  rope.theta = inner.positive("rope_theta", rope.theta);
  if (inner.positive("partial_rotary_factor", 1.0) != 1.0) {
    inner.fail("partial_rotary_factor", "is not supported; only 1 is");
  }
  const auto type = inner.text("rope_type", inner.text("type", "default"));
  if (type == "default") return;
  if (type != "linear" && type != "llama3") {
    inner.fail("rope_type",
               fmt::format("\"{}\" is not supported; supported are default, linear and "
                           "llama3",
                           type));
  }
  rope.factor = inner.positive("factor");
  rope.scaling = RopeConfig::Scaling::linear;
  if (type == "linear") return;
  rope.scaling = RopeConfig::Scaling::llama3;
  rope.low_freq_factor = inner.positive("low_freq_factor");
  rope.high_freq_factor = inner.positive("high_freq_factor");
  rope.original_max_position_embeddings =
      inner.size("original_max_position_embeddings", config.max_position_embeddings);
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    inner.fail("high_freq_factor", "must be larger than low_freq_factor");
  }
}

// ---- The rest
// ------------------------------------------------------------------------------------

void read_ids(const Reader& reader, Config& config) {
  if (const auto* bos = reader.find("bos_token_id")) {
    config.bos_token_id = reader.id("bos_token_id", *bos);
  }
  const auto* eos = reader.find("eos_token_id");
  if (eos == nullptr) return;
  if (!eos->is_array()) {
    config.eos_token_ids.push_back(reader.id("eos_token_id", *eos));
    return;
  }
  for (const auto& id : *eos) config.eos_token_ids.push_back(reader.id("eos_token_id", id));
}

void read_dtype(const Reader& reader, Config& config) {
  config.dtype = reader.text("dtype", reader.text("torch_dtype", "float32"));
  if (config.dtype != "float32" && config.dtype != "bfloat16" && config.dtype != "float16") {
    reader.fail("dtype", fmt::format("\"{}\" is not supported; supported are float32, bfloat16 and "
                                     "float16",
                                     config.dtype));
  }
}

}  // namespace

std::string_view name_of(Family family) { return kFamilies.at(static_cast<size_t>(family)); }

std::string supported_families() { return fmt::format("{}", fmt::join(kFamilies, ", ")); }

Config parse_config(std::string_view text, const std::string& file) {
  // Nesting is limited because errors print values, and printing recurses.
  constexpr int kDeepest = 32;
  const auto limit = [&](int depth, json::parse_event_t, json&) {
    if (depth > kDeepest) throw Error(file, "", "is nested too deeply");
    return true;
  };
  json parsed;
  try {
    parsed = json::parse(text, limit);
  } catch (const json::exception& error) {
    throw Error(file, "", fmt::format("is no JSON: {}", error.what()));
  }
  if (!parsed.is_object()) throw Error(file, "", "must be a JSON object");
  const Reader reader(parsed, file);
  Config config;
  config.family = family_of(reader);
  refuse_unsupported(reader);
  read_sizes(reader, config);
  read_head_dim(reader, config);
  read_biases(reader, config);
  read_sliding_window(reader, config);
  read_rope(reader, config);
  config.tie_word_embeddings = reader.flag("tie_word_embeddings", false);
  read_ids(reader, config);
  read_dtype(reader, config);
  return config;
}

Config read_config(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(path.string(), "",
                "cannot be opened; a model folder has config.json, model.safetensors and "
                "tokenizer.json");
  }
  std::ostringstream text;
  text << file.rdbuf();
  return parse_config(text.str(), path.string());
}

}  // namespace remat::models
