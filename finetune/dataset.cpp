#include "finetune/dataset.h"

#include <algorithm>
#include <limits>

#include <ATen/ATen.h>

#include "finetune/error.h"
#include "models/error.h"
#include "models/safetensors.h"

namespace remat::finetune {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const fs::path& path, const std::string& cause) {
  throw Error(Fault::data, path.string() + ": " + cause);
}

constexpr const char* kWayOut = "; write it anew with: python -m remat.prepare data";

/// The tensor of that name as numbers of type T.
template <typename T>
std::vector<T> read(const models::safetensors::File& file, const char* name) {
  const auto* entry = file.find(name);
  if (entry == nullptr) {
    fail(file.path(), std::string("no tensor \"") + name + "\": not a file of tokens" + kWayOut);
  }
  const auto stored = file.read(name);
  if (stored.dim() != 1 || at::isFloatingType(stored.scalar_type())) {
    fail(file.path(), std::string("tensor \"") + name + "\" is no list of integers" + kWayOut);
  }
  // Through 64 bits: a token of 2^32 + 5 must not pass for 5.
  const auto wide = stored.to(at::kLong);
  const auto* first = wide.const_data_ptr<int64_t>();
  std::vector<T> numbers(static_cast<size_t>(wide.numel()));
  std::transform(first, first + wide.numel(), numbers.begin(), [](int64_t number) {
    constexpr auto low = static_cast<int64_t>(std::numeric_limits<T>::min());
    constexpr auto high = static_cast<int64_t>(std::numeric_limits<T>::max());
    return static_cast<T>(std::clamp(number, low, high));
  });
  return numbers;
}

}  // namespace

int64_t Row::trained() const {
  if (mask.empty()) return 0;
  return std::ranges::count_if(mask.subspan(1), [](uint8_t mark) { return mark != 0; });
}

Dataset::Dataset(const fs::path& path, const Limits& limits) : path_(path), limits_(limits) {
  load();
  check_layout();
  check_tokens();
  check_rows();
}

void Dataset::load() {
  try {
    const models::safetensors::File file(path_);
    tokens_ = read<int32_t>(file, "tokens");
    mask_ = read<uint8_t>(file, "mask");
    offsets_ = read<int64_t>(file, "offsets");
  } catch (const models::Error& error) {
    throw Error(Fault::data, error.what() + std::string(kWayOut));
  }
}

void Dataset::check_layout() const {
  if (offsets_.size() < 2) fail(path_, "it has no rows: there is nothing to train on");
  if (mask_.size() != tokens_.size()) {
    fail(path_, "it has " + std::to_string(tokens_.size()) + " tokens and " +
                    std::to_string(mask_.size()) + " marks" + kWayOut);
  }
  const bool whole = offsets_.front() == 0 && std::ranges::is_sorted(offsets_) &&
                     offsets_.back() == static_cast<int64_t>(tokens_.size());
  if (!whole) {
    fail(path_,
         std::string("the offsets of its rows do not ascend from 0 to its tokens") + kWayOut);
  }
}

void Dataset::check_tokens() const {
  const auto outside = [&](int32_t token) { return token < 0 || token >= limits_.vocabulary; };
  const auto found = std::ranges::find_if(tokens_, outside);
  if (found == tokens_.end()) return;
  const auto place = found - tokens_.begin();
  const auto row = std::ranges::upper_bound(offsets_, place) - offsets_.begin() - 1;
  fail(path_, "row " + std::to_string(row) + ", token " +
                  std::to_string(place - offsets_[static_cast<size_t>(row)]) + " is " +
                  std::to_string(*found) + ", but the model's vocabulary has " +
                  std::to_string(limits_.vocabulary) +
                  " tokens: prepare the data with the tokenizer of this model");
}

void Dataset::check_rows() const {
  int64_t count = 0;
  int64_t first = -1;
  for (int64_t at = 0; at < rows(); ++at) {
    if (row(at).trained() > 0) continue;
    if (count++ == 0) first = at;
  }
  if (count == 0) return;
  fail(path_, std::to_string(count) + " rows have no trainable token within " +
                  std::to_string(limits_.max_length) + " tokens (first: row " +
                  std::to_string(first) + "); raise --max-length, or leave them out");
}

Row Dataset::row(int64_t index) const {
  const auto begin = static_cast<size_t>(offsets_[static_cast<size_t>(index)]);
  const auto end = static_cast<size_t>(offsets_[static_cast<size_t>(index) + 1]);
  const auto length = std::min(end - begin, static_cast<size_t>(limits_.max_length));
  return {std::span(tokens_).subspan(begin, length), std::span(mask_).subspan(begin, length)};
}

int64_t Dataset::tokens() const {
  int64_t sum = 0;
  for (int64_t at = 0; at < rows(); ++at) sum += static_cast<int64_t>(row(at).tokens.size());
  return sum;
}

int64_t Dataset::trained() const {
  int64_t sum = 0;
  for (int64_t at = 0; at < rows(); ++at) sum += row(at).trained();
  return sum;
}

int64_t Dataset::longest() const {
  size_t longest = 0;
  for (int64_t at = 0; at < rows(); ++at) longest = std::max(longest, row(at).tokens.size());
  return static_cast<int64_t>(longest);
}

int64_t Dataset::truncated() const {
  int64_t count = 0;
  for (size_t at = 0; at + 1 < offsets_.size(); ++at) {
    if (offsets_[at + 1] - offsets_[at] > limits_.max_length) ++count;
  }
  return count;
}

namespace {

/// The file of tokens that `path` names. Throws where it names text.
fs::path tokens_file(const fs::path& path, const std::string& model) {
  if (!fs::exists(path)) fail(path, "no such file or folder");
  if (path.extension() == ".safetensors") return path;
  fail(path, "this is not a file of tokens; make one with: python -m remat.prepare data " +
                 path.string() + " --model " + model + " --output tokens.safetensors");
}

}  // namespace

DataFiles find_data(const std::string& data, const std::string& eval_data,
                    const std::string& model) {
  DataFiles files;
  if (fs::is_directory(data)) {
    files.train = fs::path(data) / "train.safetensors";
    if (!fs::exists(files.train)) fail(data, "no train.safetensors in this folder");
    const auto valid = fs::path(data) / "valid.safetensors";
    if (fs::exists(valid)) files.valid = valid;
  } else {
    files.train = tokens_file(data, model);
  }
  if (!eval_data.empty()) {
    files.valid = fs::is_directory(eval_data) ? fs::path(eval_data) / "valid.safetensors"
                                              : tokens_file(eval_data, model);
  }
  return files;
}

}  // namespace remat::finetune
