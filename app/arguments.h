#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

/// From the words of the command line to those that CLI11 parses.
namespace remat::app {

/// "lora_r" to "lora-r", and back.
std::string kebab(std::string name);
std::string snake(std::string name);

/// The long names of a command's flags that a configuration file may use, without dashes.
std::vector<std::string> flag_names(const CLI::App& command);

/// The arguments after the program's name: flags in kebab case, and the file that --config names
/// in the place of its flags, before the others.
std::vector<std::string> arguments(const CLI::App& app, int argc, char** argv);

}  // namespace remat::app
