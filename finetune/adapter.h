#pragma once

#include <filesystem>
#include <string>

#include "finetune/lora.h"

/// LoRA adapters as folders of PEFT: adapter_config.json and adapter_model.safetensors.
namespace remat::finetune {

/// Writes the adapter. `base_model` is what the configuration names as the model below it.
void save_adapter(const Lora& lora, const std::string& base_model,
                  const std::filesystem::path& folder);

/// Puts the adapter in `folder` on the decoder. Throws Error{model} where a file is missing or
/// wrong, asks for what is not supported here (DoRA, biases, patterns, other methods than LoRA), or
/// does not fit the decoder.
Lora load_adapter(models::Decoder& decoder, const std::filesystem::path& folder);

}  // namespace remat::finetune
