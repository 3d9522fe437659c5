#include "tests/finetune/tiny.h"

#include <cstdlib>
#include <random>
#include <stdexcept>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include "finetune/file.h"
#include "models/safetensors.h"

namespace remat::testing {

namespace fs = std::filesystem;

namespace {

// Tensors of a few hundred numbers: on a busy machine a second thread costs milliseconds a call.
const bool one_thread = (at::set_num_threads(1), true);

constexpr const char* kConfig = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3,
  "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 101,
  "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu",
  "tie_word_embeddings": true, "rope_theta": 10000.0, "torch_dtype": "float32"
})";

at::Tensor random(at::IntArrayRef sizes, at::Generator& generator) {
  return at::empty(sizes, at::kFloat).normal_(0, 0.1, generator);
}

std::vector<int64_t> joined(const Rows& rows) {
  std::vector<int64_t> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

}  // namespace

void write_model(const fs::path& folder) {
  fs::create_directories(folder);
  finetune::write_text(folder / "config.json", kConfig);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  models::safetensors::NamedTensors tensors;
  const auto add = [&](const std::string& name, at::IntArrayRef sizes) {
    tensors.emplace_back(name, sizes.size() == 1 ? at::ones(sizes) : random(sizes, generator));
  };
  add("model.embed_tokens.weight", {kVocabulary, 16});
  for (size_t layer = 0; layer < kLayers; ++layer) {
    const auto prefix = "model.layers." + std::to_string(layer) + ".";
    add(prefix + "input_layernorm.weight", {16});
    add(prefix + "post_attention_layernorm.weight", {16});
    add(prefix + "self_attn.q_proj.weight", {16, 16});
    add(prefix + "self_attn.k_proj.weight", {8, 16});
    add(prefix + "self_attn.v_proj.weight", {8, 16});
    add(prefix + "self_attn.o_proj.weight", {16, 16});
    add(prefix + "mlp.gate_proj.weight", {24, 16});
    add(prefix + "mlp.up_proj.weight", {24, 16});
    add(prefix + "mlp.down_proj.weight", {16, 24});
  }
  add("model.norm.weight", {16});
  models::safetensors::write(folder / "model.safetensors", tensors);
}

void write_tokens(const fs::path& path, const Rows& rows) {
  Rows marks = rows;
  for (auto& row : marks) row.assign(row.size(), 1);
  write_tokens(path, rows, marks);
}

void write_tokens(const fs::path& path, const Rows& rows, const Rows& marks) {
  std::vector<int64_t> offsets{0};
  for (const auto& row : rows) offsets.push_back(offsets.back() + static_cast<int64_t>(row.size()));
  models::safetensors::write(path, {{"tokens", at::tensor(joined(rows), at::kInt)},
                                    {"mask", at::tensor(joined(marks), at::kByte)},
                                    {"offsets", at::tensor(offsets, at::kLong)}});
}

Rows random_rows(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  Rows rows(static_cast<size_t>(count));
  for (auto& row : rows) {
    row.resize(5 + random() % 8);
    for (auto& token : row) token = static_cast<int64_t>(random() % kVocabulary);
  }
  return rows;
}

finetune::Settings tiny_settings(const TemporaryFolder& folder) {
  write_model(folder / "model");
  write_tokens(folder / "train.safetensors", random_rows(7));
  finetune::Settings settings;
  settings.model = folder / "model";
  settings.data = folder / "train.safetensors";
  settings.output = folder / "out";
  settings.lora.r = 4;
  settings.lora.dropout = 0.1;
  settings.batch_size = 2;
  settings.max_steps = 6;
  settings.learning_rate = 1e-2;
  settings.save_steps = 2;
  settings.save_total_limit = 0;
  return settings;
}

std::vector<double> Notes::losses() const {
  std::vector<double> all;
  for (const auto& step : steps) all.push_back(step.loss);
  return all;
}

std::string bytes_of(const fs::path& path) { return finetune::read_text(path); }

}  // namespace remat::testing
