#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace remat::finetune {

constexpr const char* kManifest = "MANIFEST.json";

/// Lists every file of the folder, with its size and checksum, in the folder's MANIFEST.json and
/// waits until all of them are on the disk. Written last, so that a folder with a valid manifest is
/// complete.
void write_manifest(const std::filesystem::path& folder);

/// What is wrong with the folder ("model.safetensors has 12 bytes where the manifest says 20"), or
/// nothing if it is complete.
std::optional<std::string> defect(const std::filesystem::path& folder);

}  // namespace remat::finetune
