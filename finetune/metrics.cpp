#include "finetune/metrics.h"

#include <fstream>
#include <sstream>
#include <utility>

#include <sys/resource.h>

#include "finetune/error.h"
#include "finetune/file.h"

namespace remat::finetune {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

/// The lines up to and with step `last`. A torn last line, of a process that was killed, goes too.
std::string lines_until(const std::string& text, int64_t last) {
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.value("step", int64_t{0}) <= last) kept += line + "\n";
  }
  return kept;
}

}  // namespace

Metrics::Metrics(fs::path output, nlohmann::json facts)
    : path_(std::move(output) / "metrics.jsonl"), facts_(std::move(facts)) {}

void Metrics::on_start(const StartReport& report) {
  fs::create_directories(path_.parent_path());
  const bool goes_on = report.first_step > 0 && fs::exists(path_);
  replace_text(path_, goes_on ? lines_until(read_text(path_), report.first_step) : "");
  ordered_json line{{"event", "start"},
                    {"step", report.first_step},
                    {"max_steps", report.steps},
                    {"num_train_rows", report.rows},
                    {"num_train_tokens", report.tokens},
                    {"num_trained_tokens", report.trained_tokens},
                    {"truncated_rows", report.truncated_rows},
                    {"num_eval_rows", report.eval_rows},
                    {"parameters", report.parameters},
                    {"trainable_parameters", report.trained_parameters},
                    {"weight_bytes", report.weight_bytes}};
  for (const auto& [key, value] : facts_.items()) line[key] = value;
  append(line);
}

void Metrics::on_step(const StepReport& report) {
  append({{"event", "step"},
          {"step", report.step},
          {"epoch", report.epoch},
          {"loss", report.loss},
          {"learning_rate", report.learning_rate},
          {"grad_norm", report.grad_norm},
          {"tokens", report.tokens},
          {"num_input_tokens_seen", report.tokens_seen},
          {"tokens_per_second", report.tokens_per_second},
          {"step_time_s", report.seconds},
          {"peak_memory_bytes", report.peak_bytes},
          {"activation_peak_bytes", report.activation_peak_bytes},
          {"after_forward_bytes", report.after_forward_bytes},
          {"peak_rss_bytes", peak_rss_bytes()},
          {"ops_replayed", report.ops_replayed},
          {"budget_bytes", report.budget_bytes},
          {"planned_peak_bytes", report.planned_peak_bytes},
          {"eta_s", report.seconds_left}});
}

void Metrics::on_evaluation(const EvalReport& report) {
  append({{"event", "eval"},
          {"step", report.step},
          {"eval_loss", report.loss},
          {"eval_ppl", report.perplexity},
          {"eval_rows", report.rows},
          {"eval_tokens", report.tokens},
          {"eval_runtime", report.seconds}});
}

void Metrics::on_sample(int64_t step, const std::string& text) {
  append({{"event", "sample"}, {"step", step}, {"text", text}});
}

void Metrics::on_save(const SaveReport& report) {
  append({{"event", "save"},
          {"step", report.step},
          {"folder", report.folder.string()},
          {"bytes", report.bytes},
          {"seconds", report.seconds}});
}

void Metrics::on_warning(const std::string& text) {
  // Before the start, the file still is the earlier process's.
  if (fs::exists(path_)) append({{"event", "warning"}, {"text", text}});
}

void Metrics::append(const ordered_json& line) {
  std::ofstream file(path_, std::ios::app);
  // Bytes that are no UTF-8 may come of a sample cut inside a character.
  file << line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << "\n";
  file.close();
  if (!file) throw Error(Fault::runtime, "cannot write " + path_.string() + ": is the disk full?");
}

}  // namespace remat::finetune
