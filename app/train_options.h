#pragma once

#include <CLI/CLI.hpp>

#include "finetune/settings.h"

namespace remat::app {

/// The flags of `remat train`, by the names of transformers and PEFT where they have one, bound to
/// `settings`. Also keys of its configuration file.
void add_train_options(CLI::App& command, finetune::Settings& settings);

/// What is trained and how adapters are made: the flags that decide what a step computes.
void add_method_options(CLI::App& command, finetune::Settings& settings);
/// Type of the weights and autocast, likewise.
void add_arithmetic_options(CLI::App& command, finetune::Settings& settings);

/// The folder of the base model; shared by the commands.
CLI::Option* add_model_option(CLI::App& command, std::string& model);

/// --config, which is read before the flags are parsed (see arguments.h).
void add_config_option(CLI::App& command);

}  // namespace remat::app
