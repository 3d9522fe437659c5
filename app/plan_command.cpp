#include <cstdint>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/run.h"
#include "app/train_options.h"
#include "finetune/batch.h"
#include "finetune/error.h"
#include "finetune/file.h"
#include "finetune/model.h"
#include "finetune/traced_step.h"
#include "models/config.h"
#include "remat/plan/budget.h"
#include "remat/plan/plan_file.h"
#include "remat/plan/planner.h"
#include "remat/plan/trace_file.h"

namespace remat::app {

namespace {

using finetune::Error;
using finetune::Fault;
using nlohmann::ordered_json;
using plan::Planned;
using plan::Trace;

struct PlanOptions {
  std::string trace;
  finetune::Settings training;  ///< whose step is measured where no trace is given
  std::string trace_output;
  std::string budget;
  std::string output;
  plan::PlannerOptions planner;
  bool sweep = false;
  bool json = false;
};

/// The training step of a model, on random tokens: what is kept and recomputed does not depend on
/// them.
Trace measure(const finetune::Settings& training) {
  const auto vocabulary = models::read_config(training.model).vocab_size;
  const finetune::Model model(training, {});
  return finetune::traced_step(
      model, finetune::random_batch(training.batch_size, training.max_length, vocabulary));
}

Trace read(const std::string& file) {
  try {
    return plan::read_trace(std::filesystem::path(file));
  } catch (const std::exception& error) {
    throw Error(Fault::data, error.what());
  }
}

Planned planned_within(const Trace& trace, int64_t budget, const PlanOptions& options) {
  try {
    return plan::plan_within(trace, budget, options.planner);
  } catch (const std::invalid_argument& error) {
    throw Error(Fault::usage, error.what());
  }
}

int64_t budget_of(const PlanOptions& options, int64_t plain_bytes) {
  try {
    return plan::parse_budget(options.budget, plain_bytes);
  } catch (const std::invalid_argument& error) {
    throw Error(Fault::usage, std::string("--activation-budget: ") + error.what());
  }
}

double percent(const Trace& trace, double us) { return 100 * us / trace.base_us(); }

double mebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

ordered_json passes_json(const Trace& trace, const Planned& planned) {
  auto passes = ordered_json::array();
  for (const auto& pass : planned.passes) {
    ordered_json entry{{"name", pass.name}, {"ran", pass.ran}, {"seconds", pass.seconds}};
    if (pass.best) {
      entry["recompute_percent"] = percent(trace, pass.best->us);
      entry["peak_bytes"] = pass.best->peak;
    }
    passes.push_back(std::move(entry));
  }
  return passes;
}

/// The figures of one budget, without the passes and the plan.
ordered_json figures_json(const Trace& trace, int64_t budget, const Planned& planned) {
  ordered_json figures{{"budget_bytes", budget}, {"fits", planned.plan.has_value()}};
  if (planned.plan) {
    figures["peak_bytes"] = planned.plan->cost.peak;
    figures["recompute_percent"] = planned.plan->recompute_percent();
    figures["bound_percent"] = percent(trace, planned.bound_us);
  } else {
    figures["least_budget_bytes"] = planned.least_budget;
  }
  figures["plan_seconds"] = planned.seconds;
  return figures;
}

ordered_json plan_json(const plan::Plan& plan) {
  auto rows = ordered_json::array();
  for (plan::StepId step = 0; step < plan.replay.rows(); ++step) {
    const auto row = plan.replay[step];
    rows.push_back(std::vector<plan::OpId>(row.begin(), row.end()));
  }
  return {{"is_keep_set", plan.is_keep_set},
          {"fingerprint", plan.fingerprint},
          {"keep", plan.kept},
          {"replay", rows}};
}

void print_json(const Trace& trace, int64_t budget, int64_t plain_bytes, const Planned& planned) {
  auto root = figures_json(trace, budget, planned);
  root["plain_peak_bytes"] = plain_bytes;
  root["forced_bytes"] = planned.forced_bytes;
  root["passes"] = passes_json(trace, planned);
  if (planned.plan) root.update(plan_json(*planned.plan));
  std::cout << root.dump() << "\n";
}

void print_text(const Trace& trace, const Planned& planned) {
  if (planned.plan) std::cout << plan::to_text(*planned.plan, trace);
  std::cout << fmt::format("bound      {:.3f} % of the step\n", percent(trace, planned.bound_us));
  for (const auto& pass : planned.passes) {
    if (!pass.ran) continue;
    const auto result = pass.best ? fmt::format("{:.3f} %", percent(trace, pass.best->us))
                                  : std::string("nothing that fits");
    std::cout << fmt::format("pass       {}  {}  {:.3f} s\n", pass.name, result, pass.seconds);
  }
  std::cout << fmt::format("planned in {:.3f} s\n", planned.seconds);
}

template <typename Write>
void save(const std::string& file, const Write& write) {
  std::ostringstream text;
  write(text);
  finetune::replace_text(file, text.str());
}

void run_budget(const Trace& trace, int64_t plain_bytes, const PlanOptions& options) {
  const int64_t budget = budget_of(options, plain_bytes);
  const auto planned = planned_within(trace, budget, options);
  if (options.json) {
    print_json(trace, budget, plain_bytes, planned);
  } else {
    print_text(trace, planned);
  }
  if (!planned.plan) {
    throw Error(
        Fault::budget,
        fmt::format(
            "--activation-budget {} is {} bytes, and no plan fits; the least budget "
            "found is {} bytes ({:.1f} MiB, {:.2f} % of plain training's {})",
            options.budget, budget, planned.least_budget, mebibytes(planned.least_budget),
            100.0 * static_cast<double>(planned.least_budget) / static_cast<double>(plain_bytes),
            plain_bytes));
  }
  if (!options.output.empty())
    save(options.output, [&](std::ostream& out) { plan::write_plan(*planned.plan, out); });
}

/// From plain training down to where nothing fits, in steps of 5 %.
void run_sweep(const Trace& trace, int64_t plain_bytes, const PlanOptions& options) {
  auto points = ordered_json::array();
  if (!options.json) {
    std::cout << "budget  MiB       peak MiB  recompute %  bound %  planned in s\n";
  }
  for (int share = 100; share > 0; share -= 5) {
    const int64_t budget = plain_bytes / 100 * share + plain_bytes % 100 * share / 100;
    const auto planned = planned_within(trace, budget, options);
    points.push_back(figures_json(trace, budget, planned));
    if (!options.json && planned.plan) {
      std::cout << fmt::format("{:5} %  {:<8.1f}  {:<8.1f}  {:<11.3f}  {:<7.3f}  {:.3f}\n", share,
                               mebibytes(budget), mebibytes(planned.plan->cost.peak),
                               planned.plan->recompute_percent(), percent(trace, planned.bound_us),
                               planned.seconds);
    }
    if (planned.plan) continue;
    if (!options.json) {
      std::cout << fmt::format("least budget {:.1f} MiB\n", mebibytes(planned.least_budget));
    }
    break;
  }
  if (options.json) {
    std::cout << ordered_json{{"plain_peak_bytes", plain_bytes}, {"sweep", points}}.dump() << "\n";
  }
}

void run_plan(const PlanOptions& options) {
  if (options.sweep == !options.budget.empty()) {
    throw Error(Fault::usage, "give either --activation-budget or --sweep");
  }
  if (options.trace.empty() == options.training.model.empty()) {
    throw Error(Fault::usage, "give either --trace or the --model whose step is to be planned");
  }
  const Trace trace = options.trace.empty() ? measure(options.training) : read(options.trace);
  if (!options.trace_output.empty())
    save(options.trace_output, [&](std::ostream& out) { plan::write_trace(trace, out); });
  const int64_t plain_bytes = plan::plain_peak(trace);
  if (options.sweep) {
    run_sweep(trace, plain_bytes, options);
  } else {
    run_budget(trace, plain_bytes, options);
  }
}

/// The flags of `remat train` that decide what a step computes.
void add_step(CLI::App& command, PlanOptions& options) {
  auto& training = options.training;
  command.option_defaults()->group("Instead of a trace, the step of a model");
  add_model_option(command, training.model)->required(false);
  command.add_option("--max-length", training.max_length, "Tokens of a row, which are random")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 30));
  command
      .add_option("--per-device-train-batch-size", training.batch_size, "Rows of the micro-batch")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command.add_option("--trace-output", options.trace_output,
                     "Save the step as a trace, format remat-trace-1");
  add_arithmetic_options(command, training);
  add_method_options(command, training);
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("plan", "What to keep and what to recompute of a training step");
  command->footer(kExitCodes);
  const auto options = std::make_shared<PlanOptions>();
  command->add_option("--trace", options->trace, "Recorded step, format remat-trace-1");
  add_step(*command, *options);
  command->option_defaults()->group("Planning");
  command->add_option("--activation-budget", options->budget,
                      "Bytes of activations at once: 6GiB, 6G, 6000MB, or 50% of plain training");
  command->add_flag("--sweep", options->sweep,
                    "Plan for 100 %, 95 %, ... down to the least budget");
  command->add_option("--output", options->output, "Save the plan, format remat-plan-1");
  command->add_option("--without", options->planner.without, "Passes of the planner to leave out");
  command->add_flag("--keep-sets-only", options->planner.keep_sets_only,
                    "Only plans in which no operator runs again more than once");
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options] { run_plan(*options); });
}

}  // namespace remat::app
