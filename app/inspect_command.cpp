#include <iostream>
#include <memory>
#include <string>

#include "app/commands.h"
#include "app/run.h"
#include "finetune/inspection.h"

namespace remat::app {

namespace {

using nlohmann::ordered_json;

/// A name and a value a line, nested ones further in.
void print(const ordered_json& facts, const std::string& indent) {
  for (const auto& [key, value] : facts.items()) {
    if (value.is_object() && !value.contains("shape")) {
      std::cout << indent << key << ":\n";
      print(value, indent + "  ");
    } else {
      std::cout << indent << key << ": "
                << (value.is_string() ? value.get<std::string>() : value.dump()) << "\n";
    }
  }
}

struct InspectOptions {
  std::string path;
  bool json = false;
};

void run_inspect(const InspectOptions& options) {
  const auto facts = finetune::inspect(options.path);
  if (options.json) {
    std::cout << facts.dump() << "\n";
  } else {
    print(facts, "");
  }
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "inspect", "What a model, adapter, checkpoint, file of tokens or of tensors is");
  command->footer(kExitCodes);
  const auto options = std::make_shared<InspectOptions>();
  command->add_option("path", options->path, "File or folder")->required();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options] { run_inspect(*options); });
}

}  // namespace remat::app
