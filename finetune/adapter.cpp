#include "finetune/adapter.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "finetune/error.h"
#include "finetune/file.h"
#include "models/safetensors.h"

namespace remat::finetune {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kWeights = "adapter_model.safetensors";
const std::string kPrefix = "base_model.model.";
const std::string kA = ".lora_A.weight";
const std::string kB = ".lora_B.weight";

/// As the user gave them; "all-linear" spelled out, because it means other layers elsewhere.
std::set<std::string> target_names(const Lora& lora) {
  const auto& targets = lora.config().targets;
  if (targets != std::vector<std::string>{"all-linear"}) return {targets.begin(), targets.end()};
  std::set<std::string> names;
  for (const auto& module : lora.modules()) {
    names.insert(module.name.substr(module.name.rfind('.') + 1));
  }
  return names;
}

/// The subset that every version of PEFT knows: newer fields make older readers warn.
json to_json(const Lora& lora, const std::string& base_model) {
  const auto& config = lora.config();
  return {{"alpha_pattern", json::object()},
          {"base_model_name_or_path", base_model},
          {"bias", "none"},
          {"fan_in_fan_out", false},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"lora_alpha", config.alpha},
          {"lora_dropout", config.dropout},
          {"modules_to_save", nullptr},
          {"peft_type", "LORA"},
          {"r", config.r},
          {"rank_pattern", json::object()},
          {"target_modules", target_names(lora)},
          {"task_type", "CAUSAL_LM"},
          {"use_dora", false},
          {"use_rslora", config.rslora}};
}

/// Throws if the configuration asks for anything that would make another model of it.
void check_supported(const json& config, const fs::path& path) {
  const auto is_off = [](const json& value) {
    return value.is_null() || value == false || value == "none" || value.empty();
  };
  if (config.value("peft_type", "") != "LORA")
    throw Error(Fault::model, path.string() + ": peft_type is not LORA: only LoRA can be loaded");
  for (const char* key :
       {"use_dora", "bias", "lora_bias", "modules_to_save", "rank_pattern", "alpha_pattern",
        "fan_in_fan_out", "layer_replication", "trainable_token_indices", "target_parameters"}) {
    if (config.contains(key) && !is_off(config[key])) {
      throw Error(Fault::model, path.string() + ": " + key + " is " + config[key].dump() +
                                    ", which is not supported here; merge the adapter with PEFT");
    }
  }
}

LoraConfig read_config(const fs::path& path) {
  const json config = read_json(path);
  check_supported(config, path);
  try {
    LoraConfig lora;
    lora.r = config.at("r").get<int64_t>();
    lora.alpha = config.at("lora_alpha").get<double>();
    lora.dropout = config.value("lora_dropout", 0.0);
    lora.rslora = config.value("use_rslora", false);
    const auto& targets = config.at("target_modules");
    lora.targets = targets.is_array() ? targets.get<std::vector<std::string>>()
                                      : std::vector{targets.get<std::string>()};
    return lora;
  } catch (const json::exception& error) {
    throw Error(Fault::model, path.string() + ": " + error.what());
  }
}

/// The module of a tensor's name and whether it is its A or its B.
std::pair<std::string, bool> parse_key(const std::string& key, const fs::path& path) {
  const bool is_a = key.ends_with(kA);
  if (!key.starts_with(kPrefix) || !(is_a || key.ends_with(kB))) {
    // PEFT itself would load the file and leave the adapter zero.
    throw Error(Fault::model, path.string() + ": tensor \"" + key +
                                  "\" is no LoRA weight by its name: base_model.model.<module>"
                                  ".lora_A.weight or .lora_B.weight");
  }
  return {key.substr(kPrefix.size(), key.size() - kPrefix.size() - kA.size()), is_a};
}

std::vector<Lora::Module> read_modules(const fs::path& path) {
  const models::safetensors::File file(path);
  std::map<std::string, Lora::Module> modules;
  for (const auto& entry : file.header().entries) {
    const auto [name, is_a] = parse_key(entry.name, path);
    auto& module = modules[name];
    module.name = name;
    (is_a ? module.a : module.b) = file.read(entry.name).to(at::kFloat);
  }
  std::vector<Lora::Module> whole;
  for (auto& [name, module] : modules) {
    if (!module.a.defined() || !module.b.defined())
      throw Error(Fault::model, path.string() + ": module \"" + name + "\" lacks its A or its B");
    whole.push_back(std::move(module));
  }
  if (whole.empty()) throw Error(Fault::model, path.string() + " has no weights");
  return whole;
}

}  // namespace

void save_adapter(const Lora& lora, const std::string& base_model, const fs::path& folder) {
  models::safetensors::NamedTensors tensors;
  for (const auto& module : lora.modules()) {
    const auto name = kPrefix + module.name;
    tensors.emplace_back(name + kA, module.a.detach());
    tensors.emplace_back(name + kB, module.b.detach());
  }
  models::safetensors::write(folder / kWeights, tensors);
  write_text(folder / kConfig, to_json(lora, base_model).dump(2) + "\n");
}

Lora load_adapter(models::Decoder& decoder, const fs::path& folder) {
  if (!fs::exists(folder / kConfig))
    throw Error(Fault::model, folder.string() + " is no adapter of PEFT: no " + kConfig);
  auto config = read_config(folder / kConfig);
  return {decoder, std::move(config), read_modules(folder / kWeights)};
}

}  // namespace remat::finetune
