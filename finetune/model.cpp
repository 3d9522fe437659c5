#include "finetune/model.h"

#include <utility>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include "finetune/activation.h"
#include "finetune/adapter.h"
#include "finetune/error.h"
#include "finetune/loss.h"
#include "models/folder.h"

namespace remat::finetune {

namespace fs = std::filesystem;

namespace {

Lora put_adapter(models::Decoder& decoder, const Settings& settings, const fs::path& checkpoint) {
  if (!checkpoint.empty()) return load_adapter(decoder, checkpoint);
  if (!settings.adapter.empty()) return load_adapter(decoder, settings.adapter);
  at::manual_seed(settings.seed);
  return {decoder, settings.lora};
}

}  // namespace

Model::Model(const Settings& settings, const fs::path& checkpoint)
    : source_(settings.model), bf16_(settings.bf16) {
  const bool whole = !settings.is_lora() && !checkpoint.empty();
  decoder_ = std::make_unique<models::Decoder>(models::load_model(
      whole ? checkpoint : fs::path(settings.model), weight_type(settings.dtype)));
  if (settings.is_lora()) {
    lora_ = put_adapter(*decoder_, settings, checkpoint);
  } else {
    for (const auto& [name, parameter] : decoder_->named_parameters()) parameter.requires_grad_();
  }
  run_layers_ = run_with_recomputation(settings.activation_checkpointing, decoder_->layers.size());
}

at::Tensor Model::loss(const Batch& batch, double scale) const {
  const Autocast autocast(bf16_);
  models::Inputs inputs;
  inputs.tokens = batch.tokens;
  const auto hidden = decoder_->hidden_states(inputs, run_layers_);
  return chunked_cross_entropy(hidden, decoder_->lm_head.weight, batch.labels, scale);
}

NamedTensors Model::trained() const {
  if (!lora_) return decoder_->named_parameters();
  NamedTensors all;
  for (const auto& module : lora_->modules()) {
    all.emplace_back(module.name + ".lora_A.weight", module.a);
    all.emplace_back(module.name + ".lora_B.weight", module.b);
  }
  return all;
}

void Model::save(const fs::path& folder) const {
  if (!lora_) {
    models::save_model(*decoder_, source_, folder);
    return;
  }
  save_adapter(*lora_, source_, folder);
  // PEFT's own folders carry the tokenizer, too: an adapter can then be used by its path alone.
  models::copy_tokenizer_files(source_, folder);
}

std::optional<at::ScalarType> weight_type(const std::string& name) {
  if (name == "fp32" || name == "float32") return at::kFloat;
  if (name == "bf16" || name == "bfloat16") return at::kBFloat16;
  if (name == "auto") return std::nullopt;
  throw Error(Fault::usage, "dtype is '" + name + "': it can be fp32, bf16 or auto");
}

Autocast::Autocast(bool on)
    : on_(on),
      was_on_(at::autocast::is_autocast_enabled(at::kCPU)),
      type_before_(at::autocast::get_autocast_dtype(at::kCPU)) {
  if (!on_) return;
  at::autocast::increment_nesting();
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
}

Autocast::~Autocast() {
  if (!on_) return;
  at::autocast::set_autocast_enabled(at::kCPU, was_on_);
  at::autocast::set_autocast_dtype(at::kCPU, type_before_);
  // The copies of the weights in bfloat16 live until the outermost autocast ends.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
}

}  // namespace remat::finetune
