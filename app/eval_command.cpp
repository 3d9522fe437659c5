#include <iostream>
#include <memory>
#include <string>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/run.h"
#include "app/train_options.h"
#include "finetune/dataset.h"
#include "finetune/evaluation.h"
#include "finetune/model.h"

namespace remat::app {

namespace {

struct EvalOptions {
  finetune::Settings settings;
  bool json = false;
};

/// The held-out part of a folder, or the file itself.
std::filesystem::path data_file(const finetune::Settings& settings) {
  const auto files = finetune::find_data(settings.data, "", settings.model);
  return files.valid.empty() ? files.train : files.valid;
}

void print(const finetune::EvalReport& report, bool json) {
  if (json) {
    std::cout << nlohmann::ordered_json{{"eval_loss", report.loss},
                                        {"eval_ppl", report.perplexity},
                                        {"eval_rows", report.rows},
                                        {"eval_tokens", report.tokens},
                                        {"eval_runtime", report.seconds}}
                     .dump()
              << "\n";
    return;
  }
  std::cout << fmt::format("loss {:.6f}  perplexity {:.4f}  ({} rows, {} tokens, {:.1f} s)\n",
                           report.loss, report.perplexity, report.rows, report.tokens,
                           report.seconds);
}

void run_eval(EvalOptions& options) {
  auto& settings = options.settings;
  if (settings.threads > 0) at::set_num_threads(static_cast<int>(settings.threads));
  // Without an adapter the model is evaluated as it is.
  settings.method = settings.adapter.empty() ? "full" : "lora";
  const auto vocabulary = models::read_config(settings.model).vocab_size;
  const finetune::Dataset data(data_file(settings), {vocabulary, settings.max_length});
  const finetune::Model model(settings, "");
  print(finetune::evaluate(model, data, settings.batch_size), options.json);
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto* command = app.add_subcommand("eval", "Loss and perplexity of a model on a file of tokens");
  command->footer(kExitCodes);
  const auto options = std::make_shared<EvalOptions>();
  auto& settings = options->settings;
  add_model_option(*command, settings.model);
  command->add_option("--adapter", settings.adapter, "Folder of a LoRA adapter on the model");
  command->add_option("--data", settings.data, "File of tokens, or folder with valid.safetensors")
      ->required();
  command->add_option("--max-length", settings.max_length, "Tokens after which a row is cut")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 30));
  command->add_option("--per-device-eval-batch-size", settings.batch_size, "Rows at a time")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--dtype", settings.dtype, "Type of the weights: fp32, bf16, auto")
      ->capture_default_str();
  command->add_flag("--bf16", settings.bf16, "Run the layers under bfloat16 autocast");
  command->add_option("--threads", settings.threads, "Threads of one operator; 0: as cores")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options] { run_eval(*options); });
}

}  // namespace remat::app
