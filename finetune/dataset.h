#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace remat::finetune {

/// One example: as many marks as tokens. A token is trained on where its mark is not 0; the first
/// token of a row never is, nothing precedes it.
struct Row {
  std::span<const int32_t> tokens;
  std::span<const uint8_t> mask;
  /// Tokens that are trained on.
  [[nodiscard]] int64_t trained() const;
};

/// A file of tokens in memory, as `python -m remat.prepare data` writes it (docs/data.md). Every
/// row has at least one token that is trained on, and every token is below the vocabulary's size.
class Dataset {
 public:
  struct Limits {
    int64_t vocabulary = 0;
    int64_t max_length = 0;  ///< a longer row is cut to its first tokens
  };

  /// Throws Error{data}: no such file or not one of tokens, no rows, a token out of range, rows
  /// that have no trained token within max_length.
  Dataset(const std::filesystem::path& path, const Limits& limits);

  [[nodiscard]] int64_t rows() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  [[nodiscard]] Row row(int64_t index) const;
  [[nodiscard]] int64_t tokens() const;     ///< of all rows, cut
  [[nodiscard]] int64_t trained() const;    ///< those trained on
  [[nodiscard]] int64_t longest() const;    ///< tokens of the longest row, cut
  [[nodiscard]] int64_t truncated() const;  ///< rows that were cut

 private:
  void load();
  void check_layout() const;
  void check_tokens() const;
  void check_rows() const;

  std::filesystem::path path_;
  Limits limits_;
  std::vector<int32_t> tokens_;
  std::vector<uint8_t> mask_;     // as long as tokens_
  std::vector<int64_t> offsets_;  // ascending, from 0 to tokens_.size(): rows() + 1 of them
};

/// The files to train and to evaluate on that --data and --eval-data name: a file of tokens, or a
/// folder with train.safetensors and, if there is one, valid.safetensors.
struct DataFiles {
  std::filesystem::path train;
  std::filesystem::path valid;  ///< empty if there is none
};

/// Throws Error{data}, with the command that makes files of tokens where text was given.
DataFiles find_data(const std::string& data, const std::string& eval_data,
                    const std::string& model);

}  // namespace remat::finetune
