#include "finetune/inspection.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "finetune/dataset.h"
#include "finetune/error.h"
#include "finetune/file.h"
#include "finetune/manifest.h"
#include "models/config.h"
#include "models/safetensors.h"

namespace remat::finetune {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

int64_t elements(const models::safetensors::Entry& entry) {
  return static_cast<int64_t>(entry.end - entry.begin) / models::safetensors::bytes_of(entry.dtype);
}

ordered_json describe_tensors(const models::safetensors::File& file) {
  ordered_json tensors = ordered_json::object();
  for (const auto& entry : file.header().entries) {
    tensors[entry.name] = {{"dtype", models::safetensors::name_of(entry.dtype)},
                           {"shape", entry.shape},
                           {"bytes", entry.end - entry.begin}};
  }
  return tensors;
}

ordered_json describe_tokens(const fs::path& path) {
  constexpr int64_t any = std::numeric_limits<int64_t>::max();
  const Dataset data(path, {.vocabulary = any, .max_length = any});
  std::vector<size_t> lengths;
  for (int64_t at = 0; at < data.rows(); ++at) lengths.push_back(data.row(at).tokens.size());
  std::ranges::sort(lengths);
  const auto quantile = [&](size_t percent) {
    return lengths[(lengths.size() - 1) * percent / 100];
  };
  return {{"kind", "tokens"},
          {"rows", data.rows()},
          {"tokens", data.tokens()},
          {"trained_tokens", data.trained()},
          {"shortest", quantile(0)},
          {"median", quantile(50)},
          {"percentile_99", quantile(99)},
          {"longest", quantile(100)}};
}

ordered_json describe_file(const fs::path& path) {
  const models::safetensors::File file(path);
  if (file.find("tokens") != nullptr && file.find("offsets") != nullptr) {
    auto facts = describe_tokens(path);
    for (const auto& [key, value] : file.metadata()) facts["metadata"][key] = value;
    return facts;
  }
  ordered_json facts{{"kind", "safetensors"}};
  for (const auto& [key, value] : file.metadata()) facts["metadata"][key] = value;
  facts["tensors"] = describe_tensors(file);
  return facts;
}

ordered_json describe_model(const fs::path& path) {
  const auto config = models::read_config(path);
  const models::safetensors::Folder weights(path);
  int64_t parameters = 0;
  for (const auto& file : weights.files()) {
    for (const auto& entry : file.header().entries) parameters += elements(entry);
  }
  return {{"kind", "model"},
          {"model_type", read_json(path / "config.json").value("model_type", "")},
          {"parameters", parameters},
          {"dtype", config.dtype},
          {"layers", config.num_hidden_layers},
          {"hidden_size", config.hidden_size},
          {"intermediate_size", config.intermediate_size},
          {"attention_heads", config.num_attention_heads},
          {"key_value_heads", config.num_key_value_heads},
          {"head_dim", config.head_dim},
          {"vocabulary", config.vocab_size},
          {"longest_context", config.max_position_embeddings},
          {"tied_embeddings", config.tie_word_embeddings}};
}

ordered_json describe_adapter(const fs::path& path) {
  ordered_json facts{{"kind", "adapter"}};
  const auto config = read_json(path / "adapter_config.json");
  for (const auto& [key, value] : config.items()) {
    facts["config"][key] = value;
  }
  const models::safetensors::File file(path / "adapter_model.safetensors");
  facts["tensors"] = file.header().entries.size();
  return facts;
}

ordered_json describe_checkpoint(const fs::path& path) {
  ordered_json facts{{"kind", "checkpoint"}};
  const auto found = defect(path);
  facts["complete"] = !found.has_value();
  if (found) facts["defect"] = *found;
  if (fs::exists(path / "state.json")) facts["state"] = read_json(path / "state.json");
  return facts;
}

}  // namespace

ordered_json inspect(const fs::path& path) {
  if (!fs::exists(path)) throw Error(Fault::usage, path.string() + ": no such file or folder");
  if (fs::is_regular_file(path)) return describe_file(path);
  if (fs::exists(path / "state.json")) return describe_checkpoint(path);
  if (fs::exists(path / "adapter_config.json")) return describe_adapter(path);
  if (fs::exists(path / "config.json")) return describe_model(path);
  throw Error(Fault::model, path.string() +
                                ": no config.json, adapter_config.json or state.json: neither a "
                                "model nor an adapter nor a checkpoint");
}

}  // namespace remat::finetune
