#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include <c10/core/ScalarType.h>

#include "models/decoder.h"

namespace remat::models {

/// Reads a model folder as transformers writes it: config.json and the weights. Parameters have
/// `dtype`, or the stored one. Throws Error, naming file and tensor, where one is missing, has
/// another shape than config.json says, or is not the model's.
Decoder load_model(const std::filesystem::path& folder,
                   std::optional<c10::ScalarType> dtype = std::nullopt);

/// Writes a whole folder that transformers loads: the weights as they are now, config.json of
/// `source` with their dtype, and the tokenizer's files of `source`. Creates `folder`. Every file
/// is replaced as a whole or not at all. Weights beyond `shard_bytes` are cut into shards. Throws
/// Error where a file cannot be written.
void save_model(const Decoder& decoder, const std::filesystem::path& source,
                const std::filesystem::path& folder, int64_t shard_bytes = 5'000'000'000);

/// Copies what belongs to the tokenizer and to generation, as far as `source` has it:
/// tokenizer.json, tokenizer_config.json, chat_template.jinja, generation_config.json, ...
void copy_tokenizer_files(const std::filesystem::path& source, const std::filesystem::path& folder);

}  // namespace remat::models
