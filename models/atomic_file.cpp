#include "models/atomic_file.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "models/error.h"

namespace remat::models {

namespace fs = std::filesystem;

namespace {

std::string system_reason(int number) { return std::generic_category().message(number); }

/// Makes the folder's list of names durable: without it a crash may forget the rename.
void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) return;  // a folder that may be written but not read
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

AtomicFile::AtomicFile(fs::path path)
    : path_(std::move(path)),
      partial_(fmt::format("{}.partial-{}", path_.string(), ::getpid())),
      descriptor_(::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) fail("be created");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!committed_) ::unlink(partial_.c_str());
}

void AtomicFile::write(const void* bytes, size_t count) {
  // Linux writes at most 2 GiB - 4 KiB at once.
  constexpr size_t kAtOnce = size_t{1} << 30;
  const auto* next = static_cast<const char*>(bytes);
  while (count > 0) {
    const auto written = ::write(descriptor_, next, std::min(count, kAtOnce));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("be written");
    next += written;
    count -= static_cast<size_t>(written);
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail("be synced to the disk");
  // Some file systems report a full disk only now.
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) fail("be closed");
  if (::rename(partial_.c_str(), path_.c_str()) != 0) fail("be renamed into place");
  committed_ = true;
  sync_folder(path_.parent_path());
}

void AtomicFile::fail(std::string_view doing) const {
  const int number = errno;
  const char* way_out = number == ENOSPC || number == EDQUOT
                            ? "; what was there before is untouched: make room and try again"
                            : "";
  throw Error(path_.string(), "",
              fmt::format("cannot {}: {}{}", doing, system_reason(number), way_out));
}

void write_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error(folder.string(), "", "cannot be created: " + error.message());
}

}  // namespace remat::models
