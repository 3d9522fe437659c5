#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "finetune/listener.h"
#include "finetune/settings.h"
#include "tests/support/temporary_folder.h"

/// A training that takes milliseconds: a decoder of three layers with random weights, a few rows.
namespace remat::testing {

constexpr int64_t kVocabulary = 101;
constexpr size_t kLayers = 3;

/// Writes config.json and model.safetensors.
void write_model(const std::filesystem::path& folder);

using Rows = std::vector<std::vector<int64_t>>;

/// Writes a file of tokens in which all but the first token of each row is trained on.
void write_tokens(const std::filesystem::path& path, const Rows& rows);
/// The same with marks.
void write_tokens(const std::filesystem::path& path, const Rows& rows, const Rows& marks);

/// Rows of 5 to 12 random tokens.
Rows random_rows(int64_t count, uint64_t seed = 1);

/// For a model at FOLDER/model and tokens at FOLDER/train.safetensors, which it writes.
finetune::Settings tiny_settings(const TemporaryFolder& folder);

/// Notes what a training tells.
class Notes final : public finetune::Listener {
 public:
  void on_step(const finetune::StepReport& report) override { steps.push_back(report); }
  void on_evaluation(const finetune::EvalReport& report) override { evals.push_back(report); }
  void on_warning(const std::string& text) override { warnings.push_back(text); }

  [[nodiscard]] std::vector<double> losses() const;

  std::vector<finetune::StepReport> steps;
  std::vector<finetune::EvalReport> evals;
  std::vector<std::string> warnings;
};

/// The bytes of a file.
std::string bytes_of(const std::filesystem::path& path);

}  // namespace remat::testing
