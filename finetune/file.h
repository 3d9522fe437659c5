#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

/// Files that are there whole after a crash, or not at all. Every function throws Error{runtime},
/// naming the file and the system's reason.
namespace remat::finetune {

std::string read_text(const std::filesystem::path& path);

/// Throws Error{model} where the file is no JSON.
nlohmann::json read_json(const std::filesystem::path& path);

/// Writes the file and waits until it is on the disk.
void write_text(const std::filesystem::path& path, std::string_view text);

/// Writes beside and renames: who reads meanwhile, or after a crash, sees the old text or the new.
void replace_text(const std::filesystem::path& path, std::string_view text);

/// Waits until a file, or a folder's list of names, is on the disk.
void sync(const std::filesystem::path& path);

/// As std::filesystem::rename, and waits until the folder knows the new name.
void rename_synced(const std::filesystem::path& from, const std::filesystem::path& to);

/// CRC-32 (of zlib) of the file's bytes.
uint32_t checksum(const std::filesystem::path& path);

}  // namespace remat::finetune
