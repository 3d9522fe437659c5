#include <set>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/atomic_file.h"
#include "models/error.h"
#include "models/safetensors.h"
#include "models/safetensors_dtype.h"

namespace remat::models::safetensors {

namespace fs = std::filesystem;

namespace {

Header header_of(const NamedTensors& tensors, const Metadata& metadata) {
  Header header;
  header.metadata = metadata;
  // Older releases of transformers refuse a file without it.
  header.metadata.emplace("format", "pt");
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    if (!names.insert(name).second) {
      throw std::invalid_argument(
          fmt::format("models: tensor \"{}\" is to be written twice", name));
    }
    header.entries.push_back({name, dtype_of(tensor.scalar_type()), tensor.sizes().vec()});
  }
  lay_out(header.entries);
  return header;
}

int64_t bytes_of_tensor(const at::Tensor& tensor) {
  return tensor.numel() * static_cast<int64_t>(tensor.element_size());
}

/// Cuts the list where the next tensor would exceed `shard_bytes`; a larger tensor has a shard
/// alone.
std::vector<NamedTensors> cut(const NamedTensors& tensors, int64_t shard_bytes) {
  std::vector<NamedTensors> shards(1);
  int64_t filled = 0;
  for (const auto& named : tensors) {
    const int64_t bytes = bytes_of_tensor(named.second);
    if (!shards.back().empty() && filled + bytes > shard_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(named);
    filled += bytes;
  }
  return shards;
}

void write_index(const fs::path& folder, const NamedTensors& tensors, const Metadata& weight_map) {
  int64_t parameters = 0;
  int64_t bytes = 0;
  for (const auto& [_, tensor] : tensors) {
    parameters += tensor.numel();
    bytes += bytes_of_tensor(tensor);
  }
  nlohmann::json index;
  index["metadata"] = {{"total_parameters", parameters}, {"total_size", bytes}};
  index["weight_map"] = weight_map;
  write_file(folder / kIndexFile, index.dump(2) + "\n");
}

void remove_if_there(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) throw Error(path.string(), "", "cannot be removed: " + error.message());
}

}  // namespace

void write(const fs::path& path, const NamedTensors& tensors, const Metadata& metadata) {
  const auto header = header_of(tensors, metadata);
  std::map<std::string, const at::Tensor*> by_name;
  for (const auto& [name, tensor] : tensors) by_name[name] = &tensor;

  AtomicFile file(path);
  const auto first = format_header(header);
  file.write(first.data(), first.size());
  for (const auto& entry : header.entries) {
    const auto plain = by_name.at(entry.name)->detach().cpu().contiguous();
    file.write(plain.const_data_ptr(), entry.end - entry.begin);
  }
  file.commit();
}

void write_folder(const fs::path& folder, const NamedTensors& tensors, int64_t shard_bytes) {
  const auto shards = cut(tensors, shard_bytes);
  if (shards.size() == 1) {
    write(folder / kSingleFile, tensors);
    remove_if_there(folder / kIndexFile);
    return;
  }
  Metadata weight_map;
  for (size_t number = 0; number < shards.size(); ++number) {
    const auto name = fmt::format("model-{:05}-of-{:05}.safetensors", number + 1, shards.size());
    write(folder / name, shards[number]);
    for (const auto& [tensor, _] : shards[number]) weight_map[tensor] = name;
  }
  // Last: a folder whose index is there has all of its shards.
  write_index(folder, tensors, weight_map);
  remove_if_there(folder / kSingleFile);
}

}  // namespace remat::models::safetensors
