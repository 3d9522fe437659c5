#pragma once

#include <CLI/CLI.hpp>

namespace remat::app {

/// Parses the command line, runs the command, and prints what goes wrong:
///
///     error[E3 data]: tokens/train.safetensors: row 7, token 3 is 50000, but ...
///
/// Returns the exit code; what it can be is kExitCodes, at the end of every help.
int run(CLI::App& app, int argc, char** argv);

extern const char* const kExitCodes;

}  // namespace remat::app
