#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

/// Configuration files: YAML, and JSON, which is a part of YAML. A file stands for flags that come
/// before those of the command line, so that these override it.
namespace remat::app {

/// The flags "--name=value" that the file stands for. Keys are the command's flags, in kebab or
/// snake case, one by one or in groups: `lora: {r: 16}` is `lora_r: 16`. Throws Error{usage},
/// naming file, line and the nearest name, on a key that is none; and where the file is missing
/// or no YAML.
std::vector<std::string> flags_of_file(const std::string& path, const CLI::App& command);

/// The values that the command has now, as such a file.
std::string resolved_config(const CLI::App& command);

}  // namespace remat::app
