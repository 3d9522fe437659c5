#include "finetune/manifest.h"

#include <nlohmann/json.hpp>

#include "finetune/error.h"
#include "finetune/file.h"

namespace remat::finetune {

namespace fs = std::filesystem;

namespace {

std::optional<std::string> defect_of_file(const fs::path& path, const nlohmann::json& facts) {
  const auto name = path.filename().string();
  if (!fs::is_regular_file(path)) return name + " is missing";
  const auto size = fs::file_size(path);
  const auto listed = facts.at("bytes").get<uintmax_t>();
  if (size != listed) {
    return name + " has " + std::to_string(size) + " bytes where the manifest says " +
           std::to_string(listed);
  }
  if (checksum(path) != facts.at("crc32").get<uint32_t>()) {
    return name + " differs from its checksum in the manifest";
  }
  return std::nullopt;
}

}  // namespace

void write_manifest(const fs::path& folder) {
  nlohmann::json files = nlohmann::json::object();
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.path().filename() == kManifest) continue;
    sync(entry.path());
    files[entry.path().filename().string()] = {{"bytes", entry.file_size()},
                                               {"crc32", checksum(entry.path())}};
  }
  // The names first: a manifest on the disk beside a file that is not would be a lie.
  sync(folder);
  write_text(folder / kManifest, nlohmann::json{{"files", files}}.dump(2) + "\n");
  sync(folder);
}

std::optional<std::string> defect(const fs::path& folder) {
  if (!fs::is_regular_file(folder / kManifest)) return std::string(kManifest) + " is missing";
  try {
    const auto manifest = read_json(folder / kManifest);
    for (const auto& [name, facts] : manifest.at("files").items()) {
      if (auto found = defect_of_file(folder / fs::path(name).filename(), facts)) return found;
    }
  } catch (const std::exception& error) {
    return std::string(kManifest) + " cannot be read: " + error.what();
  }
  return std::nullopt;
}

}  // namespace remat::finetune
