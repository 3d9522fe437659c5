#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/safetensors_header.h"

/// Tensors in files: github.com/huggingface/safetensors, one file or several with an index.
namespace remat::models::safetensors {

using Metadata = std::map<std::string, std::string>;
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// An open file, its header checked whole. Cheap to keep: no tensor is read before it is asked for.
class File {
 public:
  /// Throws Error.
  explicit File(std::filesystem::path path);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const Header& header() const { return header_; }
  [[nodiscard]] const Metadata& metadata() const { return header_.metadata; }

  /// The entry of that name, or null.
  [[nodiscard]] const Entry* find(const std::string& name) const;

  /// A fresh tensor on the CPU with the stored bytes: copied, not mapped. A mapped file that
  /// shrinks meanwhile kills the process, and bits of matrix products depend on addresses modulo
  /// 64, which a mapping would take from the length of the header. Throws Error where there is none
  /// of that name, or the file cannot be read.
  [[nodiscard]] at::Tensor read(const std::string& name) const;

  /// Copies into `target`, of any dtype, which autograd does not see. Throws Error as read() does,
  /// and where the stored shape is another.
  void read_into(const std::string& name, at::Tensor& target) const;

 private:
  std::filesystem::path path_;
  Header header_;
  std::map<std::string, size_t> by_name_;  // position in header_.entries
  int descriptor_ = -1;
};

inline constexpr const char* kSingleFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";

/// The weights of a model folder: model.safetensors, or the shards that
/// model.safetensors.index.json names. Throws Error where a shard or an entry of the index is
/// missing.
class Folder {
 public:
  explicit Folder(const std::filesystem::path& folder);

  [[nodiscard]] const std::vector<File>& files() const { return files_; }
  /// The file that holds the tensor, or null.
  [[nodiscard]] const File* find(const std::string& name) const;
  /// Every tensor's name, ascending.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::vector<File> files_;
  std::map<std::string, size_t> by_name_;  // position in files_
};

/// Writes one file with metadata {"format": "pt"} and `metadata`: beside `path`, synced to disk,
/// then renamed, so that a crash leaves the old file or the new one. Tensors may have any strides
/// and device. Throws Error where it cannot be written (the partial file is removed), and
/// std::invalid_argument on a dtype that the format lacks or a name given twice.
void write(const std::filesystem::path& path, const NamedTensors& tensors,
           const Metadata& metadata = {});

/// Writes model.safetensors, or, where the tensors exceed `shard_bytes`, shards and their index.
/// The other form is removed from the folder afterwards: a reader would take it for these weights.
void write_folder(const std::filesystem::path& folder, const NamedTensors& tensors,
                  int64_t shard_bytes = 5'000'000'000);

}  // namespace remat::models::safetensors
