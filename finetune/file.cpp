#include "finetune/file.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <unistd.h>
#include <utility>
#include <zlib.h>

#include "finetune/error.h"

namespace remat::finetune {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const char* what, const fs::path& path, int reason = errno) {
  throw Error(Fault::runtime,
              std::string("cannot ") + what + " " + path.string() + ": " + std::strerror(reason));
}

/// A file descriptor. Streams do not report why they failed, and cannot wait for the disk.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags)
      : path_(path), fd_(::open(path.c_str(), flags, 0644)) {
    if (fd_ < 0) fail("open", path_);
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t written = ::write(fd_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write", path_);
      text.remove_prefix(static_cast<size_t>(written));
    }
  }

  void sync() const {
    // A file on which there is nothing to wait for (a pipe, /dev/null) says EINVAL.
    if (::fsync(fd_) != 0 && errno != EINVAL) fail("write", path_);
  }

 private:
  fs::path path_;
  int fd_;
};

}  // namespace

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("read", path);
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad() || fs::is_directory(path)) fail("read", path);
  return std::move(text).str();
}

nlohmann::json read_json(const fs::path& path) {
  const auto text = read_text(path);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw Error(Fault::model, path.string() + " is no JSON: " + error.what());
  }
}

void write_text(const fs::path& path, std::string_view text) {
  const Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
  file.write(text);
  file.sync();
}

void replace_text(const fs::path& path, std::string_view text) {
  auto partial = path;
  partial += ".partial";
  write_text(partial, text);
  rename_synced(partial, path);
}

void sync(const fs::path& path) { Descriptor(path, O_RDONLY | O_CLOEXEC).sync(); }

void rename_synced(const fs::path& from, const fs::path& to) {
  std::error_code reason;
  fs::rename(from, to, reason);
  if (reason) fail("rename to", to, reason.value());
  sync(fs::absolute(to).parent_path());
}

uint32_t checksum(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("read", path);
  std::array<char, 1 << 16> block;
  uLong crc = ::crc32(0, nullptr, 0);
  while (file) {
    file.read(block.data(), block.size());
    crc = ::crc32(crc, reinterpret_cast<const Bytef*>(block.data()),
                  static_cast<uInt>(file.gcount()));
  }
  return static_cast<uint32_t>(crc);
}

}  // namespace remat::finetune
