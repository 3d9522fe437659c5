#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace remat::models {

/// A file that replaces `path` as a whole, at commit(), or not at all. Written beside it, synced to
/// the disk, then renamed: after a crash the old file stands or the new one. Every function throws
/// Error, naming the file and the system's reason (a full disk, no permission).
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  /// Without a commit() before: removes what was written.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, size_t count);
  void commit();

 private:
  [[noreturn]] void fail(std::string_view doing) const;

  std::filesystem::path path_;
  std::filesystem::path partial_;
  int descriptor_ = -1;
  bool committed_ = false;
};

/// Replaces the whole text of a file, likewise.
void write_file(const std::filesystem::path& path, std::string_view text);

/// Creates the folder and those above it. Throws Error.
void make_folder(const std::filesystem::path& folder);

}  // namespace remat::models
