#include "app/arguments.h"

#include <algorithm>

#include "app/config_file.h"

namespace remat::app {

namespace {

/// "--lora_r=8" to "--lora-r=8"; what is no flag stays.
std::string kebab_flag(std::string word) {
  if (!word.starts_with("--")) return word;
  const auto end = std::min(word.find('='), word.size());
  std::replace(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return word;
}

/// The file that the last --config or -c names; empty if there is none.
std::string config_path(const std::vector<std::string>& words) {
  std::string path;
  for (size_t at = 0; at < words.size(); ++at) {
    constexpr std::string_view joined = "--config=";
    if (words[at].starts_with(joined)) path = words[at].substr(joined.size());
    const bool apart = words[at] == "--config" || words[at] == "-c";
    if (apart && at + 1 < words.size()) path = words[at + 1];
  }
  return path;
}

}  // namespace

std::string kebab(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

std::string snake(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const auto* option : command.get_options()) {
    if (!option->get_configurable()) continue;
    for (const auto& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

std::vector<std::string> arguments(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  std::ranges::transform(words, words.begin(), kebab_flag);
  const auto path = config_path(words);
  const auto commands = app.get_subcommands([&](const CLI::App* command) {
    return !words.empty() && command->get_name() == words.front();
  });
  if (path.empty() || commands.empty()) return words;
  const auto from_file = flags_of_file(path, *commands.front());
  words.insert(words.begin() + 1, from_file.begin(), from_file.end());
  return words;
}

}  // namespace remat::app
