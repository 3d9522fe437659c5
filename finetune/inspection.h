#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

namespace remat::finetune {

/// What lies at `path`, as a JSON object whose "kind" is one of: model, adapter, checkpoint (its
/// "complete" says whether it can be gone on from), tokens, safetensors. Reads headers and
/// configurations, of tokens everything. Throws Error{model} on anything else, and what the
/// readers throw.
nlohmann::ordered_json inspect(const std::filesystem::path& path);

}  // namespace remat::finetune
