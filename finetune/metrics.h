#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

#include "finetune/listener.h"

namespace remat::finetune {

/// OUT/metrics.jsonl: a JSON object a line, under the names of transformers' logs where it has one.
/// A resumed training first drops the lines after the step that it goes on from.
class Metrics final : public Listener {
 public:
  /// `facts` go into the first line, beside the start's: the settings, versions.
  Metrics(std::filesystem::path output, nlohmann::json facts);

  void on_start(const StartReport& report) override;
  void on_step(const StepReport& report) override;
  void on_evaluation(const EvalReport& report) override;
  void on_sample(int64_t step, const std::string& text) override;
  void on_save(const SaveReport& report) override;
  void on_warning(const std::string& text) override;

 private:
  void append(const nlohmann::ordered_json& line);

  std::filesystem::path path_;
  nlohmann::json facts_;
};

}  // namespace remat::finetune
