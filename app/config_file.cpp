#include "app/config_file.h"

#include <algorithm>

#include <yaml-cpp/yaml.h>

#include "app/arguments.h"
#include "app/nearest.h"
#include "finetune/error.h"

namespace remat::app {

namespace {

using finetune::Error;
using finetune::Fault;

/// The flags that one file gives.
class Reader {
 public:
  Reader(std::string path, const CLI::App& command) : path_(std::move(path)), command_(command) {}

  std::vector<std::string> read() {
    try {
      const auto root = YAML::LoadFile(path_);
      if (root.IsNull()) return {};
      if (!root.IsMap()) throw Error(Fault::usage, path_ + ": it is no list of keys and values");
      read_keys(root, "");
    } catch (const YAML::BadFile&) {
      throw Error(Fault::usage, path_ + ": cannot be read");
    } catch (const YAML::Exception& error) {
      throw Error(Fault::usage, place(error.mark) + ": " + error.msg);
    }
    return std::move(flags_);
  }

 private:
  void read_keys(const YAML::Node& map, const std::string& group) {
    for (const auto& pair : map) {
      const auto key = kebab(pair.first.as<std::string>());
      if (pair.second.IsMap()) {
        read_keys(pair.second, key);
      } else if (!pair.second.IsNull()) {
        flags_.push_back("--" + flag_of(key, group, pair.first.Mark()) + "=" + value(pair.second));
      }
    }
  }

  /// The flag of a key: by the group's name and its own (lora: r), or by its own alone.
  std::string flag_of(const std::string& key, const std::string& group, const YAML::Mark& mark) {
    const auto names = flag_names(command_);
    for (const auto& name : {group.empty() ? key : group + "-" + key, key}) {
      if (std::ranges::find(names, name) != names.end()) return name;
    }
    const auto meant = nearest(key, names);
    throw Error(Fault::usage, place(mark) + ": unknown key '" + key + "'" +
                                  (meant.empty() ? "" : "; did you mean '" + meant + "'?"));
  }

  static std::string value(const YAML::Node& node) {
    if (!node.IsSequence()) return node.as<std::string>();
    std::string joined;
    for (const auto& item : node) joined += (joined.empty() ? "" : ",") + item.as<std::string>();
    return joined;
  }

  [[nodiscard]] std::string place(const YAML::Mark& mark) const {
    return path_ + ":" + std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1);
  }

  std::string path_;
  const CLI::App& command_;
  std::vector<std::string> flags_;
};

}  // namespace

std::vector<std::string> flags_of_file(const std::string& path, const CLI::App& command) {
  return Reader(path, command).read();
}

std::string resolved_config(const CLI::App& command) {
  YAML::Emitter yaml;
  yaml << YAML::BeginMap;
  for (const auto* option : command.get_options()) {
    if (!option->get_configurable()) continue;
    const auto& given = option->results();
    const auto value = given.empty() ? option->get_default_str() : given.back();
    if (value.empty()) continue;
    yaml << YAML::Key << snake(option->get_lnames().front()) << YAML::Value << value;
  }
  yaml << YAML::EndMap;
  return std::string(yaml.c_str()) + "\n";
}

}  // namespace remat::app
