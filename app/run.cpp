#include "app/run.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <c10/util/Exception.h>

#include "app/arguments.h"
#include "app/nearest.h"
#include "finetune/error.h"
#include "models/error.h"

namespace remat::app {

const char* const kExitCodes =
    "Exit codes:\n"
    "  0 done                      5 out of memory\n"
    "  1 runtime or internal       6 model, adapter or checkpoint invalid or mismatched\n"
    "  2 usage or configuration    7 loss not finite\n"
    "  3 data                      130, 143 interrupted, after a complete save\n"
    "  4 does not fit the budget   131 interrupted, and the save failed\n";

namespace {

using finetune::Fault;

std::string_view name_of(Fault fault) {
  switch (fault) {
    case Fault::runtime:
      return "runtime";
    case Fault::usage:
      return "usage";
    case Fault::data:
      return "data";
    case Fault::budget:
      return "does-not-fit";
    case Fault::memory:
      return "memory";
    case Fault::model:
      return "model";
    case Fault::non_finite:
      return "not-finite";
  }
  return "";
}

int fail(Fault fault, const std::string& text) {
  std::cout.flush();
  std::cerr << "error[E" << static_cast<int>(fault) << " " << name_of(fault) << "]: " << text
            << std::endl;
  return static_cast<int>(fault);
}

/// "; did you mean --lora-r?" for the first word that no flag or command is called by.
std::string suggestion(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  const auto& command = commands.empty() ? app : *commands.front();
  const auto unknown = app.remaining(/*recurse=*/true);
  if (unknown.empty()) return {};

  std::vector<std::string> names;
  for (const auto& name : flag_names(command)) names.push_back("--" + name);
  for (const auto* known : command.get_subcommands({})) names.push_back(known->get_name());
  const auto typed = unknown.front().substr(0, unknown.front().find('='));
  const auto meant = nearest(typed, names);
  return meant.empty() ? "" : "; did you mean " + meant + "?";
}

bool is_out_of_memory(const std::string& text) {
  return text.find("can't allocate memory") != std::string::npos ||
         text.find("not enough memory") != std::string::npos;
}

constexpr const char* kMemoryAdvice =
    "out of memory; use --activation-checkpointing full, a smaller --max-length, or a smaller "
    "--per-device-train-batch-size";

}  // namespace

int run(CLI::App& app, int argc, char** argv) {
  try {
    app.require_subcommand(1);
    auto words = arguments(app, argc, argv);
    std::ranges::reverse(words);  // as CLI11 takes them
    app.parse(words);
    return 0;
  } catch (const CLI::RuntimeError& end) {
    return end.get_exit_code();
  } catch (const CLI::Success& request) {
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    return fail(Fault::usage, error.what() + suggestion(app) + "\n  see: remat " +
                                  (app.get_subcommands().empty()
                                       ? std::string("--help")
                                       : app.get_subcommands().front()->get_name() + " --help"));
  } catch (const finetune::Error& error) {
    return fail(error.fault(), error.what());
  } catch (const models::Error& error) {
    return fail(Fault::model, error.what());
  } catch (const std::bad_alloc&) {
    return fail(Fault::memory, kMemoryAdvice);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    return is_out_of_memory(text) ? fail(Fault::memory, text + "\n  " + kMemoryAdvice)
                                  : fail(Fault::runtime, text);
  } catch (const std::exception& error) {
    return fail(Fault::runtime, error.what());
  }
}

}  // namespace remat::app
