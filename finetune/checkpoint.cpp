#include "finetune/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <ranges>
#include <system_error>

#include "finetune/error.h"
#include "finetune/file.h"
#include "finetune/manifest.h"
#include "models/error.h"

namespace remat::finetune {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kPartial = ".tmp-";

/// Six digits at least, so that names sort as steps do.
std::string name_of(int64_t step) {
  auto digits = std::to_string(step);
  digits.insert(0, digits.size() < 6 ? 6 - digits.size() : 0, '0');
  return std::string(kPrefix) + digits;
}

/// The step of a checkpoint's name, -1 of any other name.
int64_t step_of(const fs::path& folder) {
  const auto name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return -1;
  const auto digits = name.substr(kPrefix.size());
  const bool is_number = !digits.empty() && digits.size() < 16 &&
                         std::ranges::all_of(digits, [](char c) { return '0' <= c && c <= '9'; });
  return is_number ? std::stoll(digits) : -1;
}

/// Removes a folder that is being replaced or dropped. Renamed first: killed half way, it is no
/// checkpoint any more, rather than one with a file missing.
void remove_folder(const fs::path& folder) {
  const auto doomed =
      folder.parent_path() / (std::string(kPartial) + "old-" + folder.filename().string());
  fs::remove_all(doomed);
  rename_synced(folder, doomed);
  fs::remove_all(doomed);
}

/// Throws the exception being handled again: what could not be written is the disk's fault, and not
/// that of a model's file.
[[noreturn]] void throw_as_runtime() {
  constexpr const char* kWayOut = "; make room there, earlier checkpoints are as they were";
  try {
    throw;
  } catch (const fs::filesystem_error& error) {
    throw Error(Fault::runtime, error.what() + std::string(kWayOut));
  } catch (const models::Error& error) {
    throw Error(Fault::runtime, error.what() + std::string(kWayOut));
  }
}

}  // namespace

void save_folder(const fs::path& target, const std::function<void(const fs::path&)>& fill) {
  const auto partial = target.parent_path() / (std::string(kPartial) + target.filename().string());
  try {
    fs::remove_all(partial);
    fs::create_directories(partial);
    fill(partial);
    write_manifest(partial);
    if (fs::exists(target)) remove_folder(target);
    rename_synced(partial, target);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    throw_as_runtime();
  }
}

fs::path Checkpoints::save(int64_t step, const std::function<void(const fs::path&)>& fill) const {
  const auto folder = output_ / name_of(step);
  save_folder(folder, fill);
  link_latest(folder);
  prune();
  return folder;
}

fs::path Checkpoints::newest(const Warn& warn) const {
  const auto folders = all();
  for (const auto& folder : folders | std::views::reverse) {
    const auto found = defect(folder);
    if (!found) return folder;
    warn("passing over " + folder.string() + ": " + *found);
  }
  return {};
}

void Checkpoints::clean() const {
  if (!fs::is_directory(output_)) return;
  for (const auto& entry : fs::directory_iterator(output_)) {
    if (entry.path().filename().string().starts_with(kPartial)) fs::remove_all(entry.path());
  }
}

void Checkpoints::clear() const {
  fs::remove(output_ / "latest");
  for (const auto& folder : all()) remove_folder(folder);
}

std::vector<fs::path> Checkpoints::all() const {
  std::vector<fs::path> folders;
  if (!fs::is_directory(output_)) return folders;
  for (const auto& entry : fs::directory_iterator(output_)) {
    if (entry.is_directory() && step_of(entry.path()) >= 0) folders.push_back(entry.path());
  }
  std::ranges::sort(folders, {}, step_of);
  return folders;
}

void Checkpoints::link_latest(const fs::path& folder) const {
  // Made beside and renamed: there is a link at every moment.
  const auto partial = output_ / (std::string(kPartial) + "latest");
  fs::remove(partial);
  fs::create_directory_symlink(folder.filename(), partial);
  rename_synced(partial, output_ / "latest");
}

void Checkpoints::prune() const {
  if (limit_ == 0) return;
  const auto folders = all();
  for (size_t i = 0; i + limit_ < folders.size(); ++i) remove_folder(folders[i]);
}

}  // namespace remat::finetune
