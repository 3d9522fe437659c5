#include "app/train_options.h"

#include <memory>
#include <string>
#include <vector>

namespace remat::app {

using finetune::Settings;

namespace {

/// A flag with a default that the help shows. The last one counts: a file's come before.
template <typename T>
CLI::Option* add(CLI::App& command, const std::string& name, T& value, const std::string& help) {
  return command.add_option("--" + name, value, help)->capture_default_str()->take_last();
}

/// A positive number, or auto, which becomes kLargestBatch.
CLI::Validator rows_or_auto() {
  const auto check = [](std::string& text) {
    if (text == "auto") text = std::to_string(finetune::kLargestBatch);
    if (text == std::to_string(finetune::kLargestBatch)) return std::string();
    return CLI::PositiveNumber(text);
  };
  return {check, "ROWS|auto"};
}

void add_data(CLI::App& command, Settings& s) {
  command.option_defaults()->group("Model and data");
  add_model_option(command, s.model);
  add(command, "data", s.data,
      "File of tokens, or folder with train.safetensors and valid.safetensors, as `python -m "
      "remat.prepare data` writes them")
      ->required();
  add(command, "eval-data", s.eval_data, "The same, to evaluate on");
  add(command, "max-length", s.max_length, "Tokens after which a row is cut")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 30));
  add(command, "shuffle", s.shuffle, "Visit rows in a new order every epoch");
}

void add_memory(CLI::App& command, Settings& s) {
  command.option_defaults()->group("Memory and arithmetic");
  add(command, "activation-checkpointing,--gradient-checkpointing", s.activation_checkpointing,
      "Layers whose activations are computed again in backward: none, full (each), sqrt (in "
      "sqrt(n) groups), every:N (each N-th); or a policy, what each layer keeps, such as "
      "dots_saveable or 'keep_ops(mm, addmm) | at_most(64KiB)'; or both: 'sqrt + dots_saveable'");
  add(command, "activation-budget", s.activation_budget,
      "Bytes that a micro-batch's passes may add to what is live (6GiB, 6G, 6000MB): what is "
      "recomputed is planned");
  add(command, "memory-budget", s.memory_budget,
      "The same for all tensors, weights and optimizer included");
  add(command, "plan", s.plan,
      "File of a plan (plan.json of a training, or of `remat plan --output`): followed where it is "
      "for the step and fits the budget");
  add_arithmetic_options(command, s);
  add(command, "threads", s.threads, "Threads of one operator; 0: as many as cores")
      ->check(CLI::NonNegativeNumber);
}

void add_optimisation(CLI::App& command, Settings& s) {
  command.option_defaults()->group("Optimisation");
  add(command, "per-device-train-batch-size", s.batch_size,
      "Rows of a micro-batch; auto: as many as fit the budget")
      ->transform(rows_or_auto());
  add(command, "gradient-accumulation-steps", s.accumulation, "Micro-batches of a step")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--learning-rate", s.learning_rate, "Peak learning rate (2e-4, or 2e-5 for full)")
      ->take_last()
      ->check(CLI::NonNegativeNumber);
  add(command, "lr-scheduler-type", s.schedule,
      "Shape of the learning rate: constant, constant_with_warmup, linear, cosine");
  add(command, "warmup-steps", s.warmup, "Steps of warm-up; below 1, a part of all steps");
  add(command, "weight-decay", s.optimizer.weight_decay, "AdamW's, of matrices");
  add(command, "adam-beta1", s.optimizer.beta1, "AdamW's");
  add(command, "adam-beta2", s.optimizer.beta2, "AdamW's");
  add(command, "adam-epsilon", s.optimizer.epsilon, "AdamW's");
  add(command, "max-grad-norm", s.max_grad_norm, "Clip the gradients' norm; 0: do not");
  add(command, "num-train-epochs", s.epochs, "Times that every row is visited")
      ->check(CLI::PositiveNumber);
  add(command, "max-steps", s.max_steps, "Steps, whatever the epochs; -1: by the epochs");
  add(command, "seed", s.seed, "Of fresh adapters, the order of rows, and dropout");
}

void add_output(CLI::App& command, Settings& s) {
  command.option_defaults()->group("Output");
  add(command, "output-dir", s.output, "Folder of checkpoints, metrics.jsonl and final/");
  add(command, "overwrite", s.overwrite, "Remove the checkpoints of an earlier training")
      ->configurable(false);
  add(command, "save-steps", s.save_steps, "Steps between checkpoints; 0: none")
      ->check(CLI::NonNegativeNumber);
  add(command, "save-total-limit", s.save_total_limit, "Checkpoints to keep; 0: all")
      ->check(CLI::NonNegativeNumber);
  add(command, "resume-from-checkpoint", s.resume,
      "Go on from a checkpoint; without a folder, from the newest complete one in --output-dir")
      ->expected(0, 1)
      ->default_str("auto")
      ->configurable(false);
  add(command, "eval-steps", s.eval_steps, "Steps between evaluations; 0: only at the end")
      ->check(CLI::NonNegativeNumber);
  add(command, "logging-steps", s.logging_steps, "Steps between lines")->check(CLI::PositiveNumber);
  add(command, "sample-prompt", s.sample_prompt, "Continue this text after every evaluation");
  add(command, "sample-tokens", s.sample_tokens, "Tokens of a sample")->check(CLI::PositiveNumber);
}

std::vector<std::string> split(const std::string& joined) {
  return CLI::detail::split(joined, ',');
}

}  // namespace

CLI::Option* add_model_option(CLI::App& command, std::string& model) {
  return command
      .add_option("--model,--model-name-or-path", model,
                  "Folder of a Hugging Face model: config.json and safetensors")
      ->required()
      ->take_last();
}

void add_config_option(CLI::App& command) {
  command.option_defaults()->group("Options");
  static std::string read_before;
  command
      .add_option("-c,--config", read_before,
                  "YAML or JSON file with these flags as keys; flags given here override it")
      ->configurable(false);
}

void add_arithmetic_options(CLI::App& command, Settings& s) {
  add(command, "dtype", s.dtype, "Type of the weights: fp32, bf16, auto (as stored)");
  add(command, "bf16", s.bf16, "Run the layers under bfloat16 autocast");
}

void add_method_options(CLI::App& command, Settings& s) {
  command.option_defaults()->group("Method");
  add(command, "method", s.method, "What is trained: adapters or everything")
      ->check(CLI::IsMember({"lora", "full"}));
  add(command, "adapter", s.adapter, "Folder of PEFT to start from instead of a fresh adapter");
  add(command, "lora-r", s.lora.r, "Rank")->check(CLI::PositiveNumber);
  add(command, "lora-alpha", s.lora.alpha, "Scale: alpha / r");
  add(command, "lora-dropout", s.lora.dropout, "Dropout before A");
  command
      .add_option_function<std::string>(
          "--lora-target-modules",
          [&s](const std::string& names) { s.lora.targets = split(names); },
          "Linear layers by name, separated by commas, or all-linear: all but the head")
      ->default_str("all-linear")
      ->take_last();
  add(command, "use-rslora", s.lora.rslora, "Scale by alpha / sqrt(r)");
}

void add_train_options(CLI::App& command, Settings& settings) {
  add_data(command, settings);
  add_method_options(command, settings);
  add_memory(command, settings);
  add_optimisation(command, settings);
  add_output(command, settings);
  add_config_option(command);
}

}  // namespace remat::app
