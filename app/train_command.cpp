#include <filesystem>
#include <iostream>
#include <memory>
#include <utility>

#include <ATen/Parallel.h>
#include <torch/headeronly/version.h>

#include "app/commands.h"
#include "app/config_file.h"
#include "app/interrupt.h"
#include "app/listeners.h"
#include "app/progress.h"
#include "app/run.h"
#include "app/train_options.h"
#include "finetune/error.h"
#include "finetune/file.h"
#include "finetune/metrics.h"
#include "finetune/trainer.h"

namespace remat::app {

namespace {

namespace fs = std::filesystem;
using finetune::Settings;
using finetune::Trainer;

constexpr int kInterruptedWithoutSave = 131;

/// Written before training: what a long run was started with must be known even if it dies.
void write_resolved_config(const CLI::App& command, const fs::path& output) {
  std::error_code reason;
  fs::create_directories(output, reason);
  if (reason) {
    throw finetune::Error(finetune::Fault::runtime, "cannot create --output-dir " +
                                                        output.string() + ": " + reason.message());
  }
  finetune::replace_text(output / "config.resolved.yaml", resolved_config(command));
}

/// Runs until the end or an interruption; returns the exit code.
int train(Trainer& trainer, const Settings& settings) {
  const Interrupt interrupt;
  try {
    if (trainer.run(interrupt.requested()) == Trainer::End::done) return 0;
  } catch (const finetune::Error& error) {
    if (!interrupt.requested() || error.fault() != finetune::Fault::runtime) throw;
    std::cerr << "error[E131 save]: " << error.what() << std::endl;
    return kInterruptedWithoutSave;
  }
  std::cerr << "interrupted; saved in " << settings.output
            << "; go on with the same command and --resume-from-checkpoint" << std::endl;
  return interrupt.exit_code();
}

void run_train(const CLI::App& command, const Settings& settings) {
  if (settings.threads > 0) at::set_num_threads(static_cast<int>(settings.threads));
  Progress progress(progress_style());
  finetune::Metrics metrics(settings.output, {{"torch", TORCH_VERSION},
                                              {"threads", at::get_num_threads()},
                                              {"config", resolved_config(command)}});
  Listeners listeners{&metrics, &progress};
  Trainer trainer(settings, listeners);
  write_resolved_config(command, settings.output);
  if (const int code = train(trainer, settings); code != 0) throw CLI::RuntimeError(code);
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto* command = app.add_subcommand("train", "Fine-tune a model: LoRA adapters or all weights");
  command->footer(kExitCodes);
  const auto settings = std::make_shared<Settings>();
  add_train_options(*command, *settings);
  command->callback([command, settings] { run_train(*command, *settings); });
}

}  // namespace remat::app
