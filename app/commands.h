#pragma once

#include <CLI/CLI.hpp>

/// The commands of `remat`, one file each: its flags, and a callback that does the work by calling
/// the library. Callbacks throw what the library throws; run() turns it into text and exit codes.
namespace remat::app {

void add_train_command(CLI::App& app);
void add_eval_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_plan_command(CLI::App& app);

}  // namespace remat::app
