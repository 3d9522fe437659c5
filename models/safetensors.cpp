#include "models/safetensors.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <set>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "models/error.h"
#include "models/safetensors_dtype.h"

namespace remat::models::safetensors {

namespace fs = std::filesystem;

// ---- One file
// ------------------------------------------------------------------------------------

namespace {

std::string system_reason() { return std::generic_category().message(errno); }

void read_bytes(int descriptor, uint64_t from, void* to, uint64_t count, const fs::path& path) {
  // Linux reads at most 2 GiB - 4 KiB at once.
  constexpr uint64_t kAtOnce = uint64_t{1} << 30;
  auto* next = static_cast<char*>(to);
  while (count > 0) {
    const auto got = ::pread(descriptor, next, std::min(count, kAtOnce), static_cast<off_t>(from));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(path.string(), "", "cannot be read: " + system_reason());
    if (got == 0) throw Error(path.string(), "", "was cut short while it was being read");
    next += got;
    from += static_cast<uint64_t>(got);
    count -= static_cast<uint64_t>(got);
  }
}

Header read_header(int descriptor, const fs::path& path) {
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) {
    throw Error(path.string(), "", "cannot be read: " + system_reason());
  }
  if (!S_ISREG(status.st_mode)) throw Error(path.string(), "", "is no regular file");
  const auto file_bytes = static_cast<uint64_t>(status.st_size);

  std::string length(std::min(file_bytes, kLengthBytes), '\0');
  read_bytes(descriptor, 0, length.data(), length.size(), path);
  std::string text(header_length(length, file_bytes, path.string()), '\0');
  read_bytes(descriptor, kLengthBytes, text.data(), text.size(), path);
  return parse_header(text, file_bytes, path.string());
}

}  // namespace

File::File(fs::path path)
    : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw Error(path_.string(), "", "cannot be opened: " + system_reason());
  try {
    header_ = read_header(descriptor_, path_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
  for (size_t place = 0; place < header_.entries.size(); ++place) {
    by_name_[header_.entries[place].name] = place;
  }
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      header_(std::move(other.header_)),
      by_name_(std::move(other.by_name_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(header_, other.header_);
  std::swap(by_name_, other.by_name_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

const Entry* File::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &header_.entries[found->second];
}

at::Tensor File::read(const std::string& name) const {
  const auto* entry = find(name);
  if (entry == nullptr) {
    throw Error(path_.string(), fmt::format("tensor \"{}\"", name), "is not in the file");
  }
  auto tensor = at::empty(entry->shape, scalar_type_of(entry->dtype));
  read_bytes(descriptor_, header_.data_begin + entry->begin, tensor.mutable_data_ptr(),
             entry->end - entry->begin, path_);
  return tensor;
}

void File::read_into(const std::string& name, at::Tensor& target) const {
  const auto stored = read(name);
  if (stored.sizes() != target.sizes()) {
    throw Error(path_.string(), fmt::format("tensor \"{}\"", name),
                fmt::format("has shape [{}], but [{}] is needed", fmt::join(stored.sizes(), ", "),
                            fmt::join(target.sizes(), ", ")));
  }
  const c10::AutoGradMode no_grad(false);
  target.copy_(stored);
}

// ---- A folder
// ------------------------------------------------------------------------------------

namespace {

using WeightMap = std::map<std::string, std::string>;  // tensor to file name

WeightMap read_index(const fs::path& path) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  const auto found = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || found == json.end() || !found->is_object()) {
    throw Error(path.string(), "", "must be a JSON object with the object \"weight_map\"");
  }
  WeightMap files;
  for (const auto& [name, value] : found->items()) {
    const auto shard = value.is_string() ? value.get<std::string>() : std::string();
    // A name with a folder in it could reach any file of the machine.
    if (shard.empty() || fs::path(shard).filename() != shard || shard.starts_with('.')) {
      throw Error(path.string(), fmt::format("tensor \"{}\"", name),
                  fmt::format("must name a file of this folder, not {}", value.dump()));
    }
    files[name] = shard;
  }
  return files;
}

/// Every tensor that the index gives to the shard has to be in it, and no other.
void check_shard(const File& shard, const WeightMap& index, const fs::path& index_path) {
  const auto name = shard.path().filename().string();
  for (const auto& [tensor, file] : index) {
    if (file == name && shard.find(tensor) == nullptr) {
      throw Error(shard.path().string(), fmt::format("tensor \"{}\"", tensor),
                  fmt::format("is not in the file, but {} says so: fetch both again",
                              index_path.filename().string()));
    }
  }
  for (const auto& entry : shard.header().entries) {
    const auto found = index.find(entry.name);
    if (found == index.end() || found->second != name) {
      throw Error(shard.path().string(), fmt::format("tensor \"{}\"", entry.name),
                  fmt::format("is in the file, but not in {}: fetch both again",
                              index_path.filename().string()));
    }
  }
}

}  // namespace

Folder::Folder(const fs::path& folder) {
  const auto index_path = folder / kIndexFile;
  if (fs::exists(folder / kSingleFile)) {
    files_.emplace_back(folder / kSingleFile);
  } else if (fs::exists(index_path)) {
    const auto index = read_index(index_path);
    std::set<std::string> shards;
    for (const auto& [_, shard] : index) shards.insert(shard);
    for (const auto& shard : shards) {
      files_.emplace_back(folder / shard);
      check_shard(files_.back(), index, index_path);
    }
  } else {
    throw Error(folder.string(), "",
                fmt::format("has neither {} nor {}; other formats (pytorch_model.bin, GGUF) are "
                            "converted by: python -m remat.prepare model SOURCE OUT",
                            kSingleFile, kIndexFile));
  }
  for (size_t place = 0; place < files_.size(); ++place) {
    for (const auto& entry : files_[place].header().entries) by_name_[entry.name] = place;
  }
}

const File* Folder::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &files_[found->second];
}

std::vector<std::string> Folder::names() const {
  std::vector<std::string> names;
  names.reserve(by_name_.size());
  for (const auto& [name, _] : by_name_) names.push_back(name);
  return names;
}

}  // namespace remat::models::safetensors
