#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/run.h"
#include "app/train_options.h"
#include "finetune/adapter.h"
#include "finetune/generation.h"
#include "finetune/model.h"
#include "models/folder.h"
#include "models/tokenizer.h"

namespace remat::app {

namespace {

struct GenerateOptions {
  std::string model;
  std::string adapter;
  std::string prompt;
  std::string dtype = "fp32";
  finetune::GenerationConfig config;
};

/// Prints the text as it grows. A character may be several tokens: the whole is decoded again, and
/// what is new printed once it is no half character.
class Printer {
 public:
  explicit Printer(const models::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void add(int64_t token) {
    tokens_.push_back(token);
    const auto text = tokenizer_.decode(tokens_);
    constexpr std::string_view half = "\uFFFD";
    if (text.ends_with(half) || text.size() <= printed_) return;
    std::cout << text.substr(printed_) << std::flush;
    printed_ = text.size();
  }

 private:
  const models::Tokenizer& tokenizer_;
  std::vector<int64_t> tokens_;
  size_t printed_ = 0;
};

void run_generate(const GenerateOptions& options) {
  const models::Tokenizer tokenizer(options.model);
  auto decoder = models::load_model(options.model, finetune::weight_type(options.dtype));
  if (!options.adapter.empty()) finetune::load_adapter(decoder, options.adapter);

  std::cout << options.prompt << std::flush;
  Printer printer(tokenizer);
  finetune::generate(decoder, tokenizer.encode(options.prompt), options.config, [&](int64_t token) {
    printer.add(token);
    return std::cout.good();  // nobody reads any more: stop
  });
  std::cout << std::endl;
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto* command = app.add_subcommand("generate", "Continue a text");
  command->footer(kExitCodes);
  const auto options = std::make_shared<GenerateOptions>();
  auto& config = options->config;
  add_model_option(*command, options->model);
  command->add_option("--adapter", options->adapter, "Folder of a LoRA adapter on the model");
  command->add_option("--prompt", options->prompt, "The text to continue")->required();
  command->add_option("--max-new-tokens", config.max_new_tokens, "Tokens at most")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--temperature", config.temperature, "0: always the likeliest token")
      ->capture_default_str();
  command->add_option("--top-p", config.top_p, "Draw from the likeliest tokens that make up this")
      ->capture_default_str();
  command->add_option("--seed", config.seed, "Of the draws")->capture_default_str();
  command->add_option("--dtype", options->dtype, "Type of the weights: fp32, bf16, auto")
      ->capture_default_str();
  command->callback([options] { run_generate(*options); });
}

}  // namespace remat::app
