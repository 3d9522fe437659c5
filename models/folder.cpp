#include "models/folder.h"

#include <array>
#include <fstream>
#include <set>
#include <sstream>

#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "models/atomic_file.h"
#include "models/error.h"
#include "models/safetensors.h"

namespace remat::models {

namespace fs = std::filesystem;

// ---- Load
// ----------------------------------------------------------------------------------------

namespace {

const std::string kHead = "lm_head.weight";
const std::string kEmbedding = "model.embed_tokens.weight";

class Loader {
 public:
  Loader(const fs::path& folder, std::optional<c10::ScalarType> dtype)
      : folder_(folder), weights_(folder), dtype_(dtype) {}

  at::Tensor give(const std::string& name, at::IntArrayRef shape) {
    const auto* file = weights_.find(name);
    if (file == nullptr) {
      throw Error(folder_.string(), tensor(name),
                  "is in none of the folder's files; config.json asks for it: take both from the "
                  "same model");
    }
    const auto* entry = file->find(name);
    if (at::IntArrayRef(entry->shape) != shape) {
      throw Error(file->path().string(), tensor(name),
                  fmt::format("has shape [{}], config.json asks for [{}]: take both from the same "
                              "model",
                              fmt::join(entry->shape, ", "), fmt::join(shape, ", ")));
    }
    given_.insert(name);
    auto read = file->read(name);
    if (!read.is_floating_point()) {
      throw Error(file->path().string(), tensor(name),
                  fmt::format("has dtype {}; weights must be F32, BF16 or F16 (quantized weights "
                              "are not supported: convert them with python -m remat.prepare model)",
                              safetensors::name_of(entry->dtype)));
    }
    return read.to(dtype_.value_or(read.scalar_type()));
  }

  /// A tensor that nobody asked for means that the model computes something that we do not.
  void refuse_the_rest(const Decoder& decoder) const {
    for (const auto& name : weights_.names()) {
      if (given_.contains(name) || name.ends_with(".rotary_emb.inv_freq")) continue;
      if (name == kHead && is_tied_copy(decoder)) continue;
      throw Error(weights_.find(name)->path().string(), tensor(name),
                  fmt::format("is no parameter of a {} model of this configuration: take "
                              "config.json and the weights from the same model",
                              name_of(decoder.config.family)));
    }
  }

 private:
  static std::string tensor(const std::string& name) { return fmt::format("tensor \"{}\"", name); }

  /// Some writers store the one tensor under both names.
  [[nodiscard]] bool is_tied_copy(const Decoder& decoder) const {
    if (!decoder.config.tie_word_embeddings) return false;
    return weights_.find(kHead)->read(kHead).equal(weights_.find(kEmbedding)->read(kEmbedding));
  }

  fs::path folder_;
  safetensors::Folder weights_;
  std::optional<c10::ScalarType> dtype_;
  std::set<std::string> given_;
};

}  // namespace

Decoder load_model(const fs::path& folder, std::optional<c10::ScalarType> dtype) {
  auto config = read_config(folder);
  Loader loader(folder, dtype);
  auto decoder = make_decoder(std::move(config), [&](const std::string& name, auto shape) {
    return loader.give(name, shape);
  });
  loader.refuse_the_rest(decoder);
  return decoder;
}

// ---- Save
// ----------------------------------------------------------------------------------------

namespace {

constexpr auto kTokenizerFiles = std::to_array<const char*>(
    {"tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json",
     "added_tokens.json", "vocab.json", "merges.txt", "chat_template.jinja", "chat_template.json",
     "generation_config.json"});

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw Error(path.string(), "", "cannot be read");
  return text.str();
}

const char* config_name(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::kBFloat16:
      return "bfloat16";
    case c10::kHalf:
      return "float16";
    default:
      return "float32";
  }
}

/// The source's config.json with the dtype of the weights: transformers loads them as it says.
std::string config_with_dtype(const fs::path& source, c10::ScalarType dtype) {
  auto json = nlohmann::ordered_json::parse(read_text(source / "config.json"));
  const bool old = json.contains("torch_dtype") && !json.contains("dtype");
  json[old ? "torch_dtype" : "dtype"] = config_name(dtype);
  return json.dump(2) + "\n";
}

}  // namespace

void copy_tokenizer_files(const fs::path& source, const fs::path& folder) {
  for (const auto* name : kTokenizerFiles) {
    if (!fs::exists(source / name)) continue;
    write_file(folder / name, read_text(source / name));
  }
}

void save_model(const Decoder& decoder, const fs::path& source, const fs::path& folder,
                int64_t shard_bytes) {
  make_folder(folder);
  safetensors::write_folder(folder, decoder.named_parameters(), shard_bytes);
  write_file(folder / "config.json", config_with_dtype(source, decoder.dtype()));
  copy_tokenizer_files(source, folder);
}

}  // namespace remat::models
