#include "finetune/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <sstream>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "finetune/batch_size.h"
#include "finetune/error.h"
#include "finetune/evaluation.h"
#include "finetune/file.h"
#include "finetune/generation.h"
#include "finetune/manifest.h"
#include "remat/memory/memory.h"
#include "remat/plan/budget.h"
#include "remat/plan/plan_file.h"
#include "remat/stats.h"

namespace remat::finetune {

namespace fs = std::filesystem;

// Note [One seed]
// Every random number of step n is drawn from a generator seeded by (seed, n) alone, and the rows
// of step n are a function of (seed, n), too. A checkpoint then needs no generator's state, a
// sample or an evaluation in between shifts nothing, and a resumed training draws what it would
// have drawn.

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// SplitMix64 (Steele et al. 2014): the CPU generator takes the low 32 bits, and neighbouring steps
/// must differ there in all of them.
uint64_t seed_of(uint64_t seed, int64_t step) {
  uint64_t mixed = seed + (static_cast<uint64_t>(step) + 1) * 0x9E3779B97F4A7C15;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
  return mixed ^ (mixed >> 31);
}

Warn warn_to(Listener& listener) {
  return [&listener](const std::string& text) { listener.on_warning(text); };
}

/// Throws where a training would mix its checkpoints with those of an earlier one.
void check_output(const Settings& settings, Listener& listener) {
  if (settings.overwrite) return;
  if (Checkpoints(settings.output, 0).newest(warn_to(listener)).empty()) return;
  throw Error(Fault::usage, "--output-dir " + settings.output +
                                " has checkpoints of an earlier training; go on from them with "
                                "--resume-from-checkpoint, replace them with --overwrite, or name "
                                "another folder");
}

/// The checkpoint that settings.resume means; empty where there is nothing to go on from.
fs::path find_checkpoint(const Settings& settings, Listener& listener) {
  if (settings.resume.empty()) {
    check_output(settings, listener);
    return {};
  }
  if (settings.resume != "auto") {
    if (const auto found = defect(settings.resume))
      throw Error(Fault::model, settings.resume + " is no complete checkpoint: " + *found);
    return settings.resume;
  }
  auto newest = Checkpoints(settings.output, 0).newest(warn_to(listener));
  if (newest.empty())
    listener.on_warning("no complete checkpoint in " + settings.output + ": starting anew");
  return newest;
}

Dataset load_data(const fs::path& path, const Settings& settings) {
  return {path, {models::read_config(settings.model).vocab_size, settings.max_length}};
}

int64_t count_steps(const Settings& settings, const Sampler& sampler) {
  if (settings.max_steps > 0) return settings.max_steps;
  const auto per_epoch = static_cast<double>(sampler.steps_per_epoch());
  return static_cast<int64_t>(std::ceil(settings.epochs * per_epoch));
}

int64_t budget_bytes(const std::string& flag, const std::string& text) {
  if (text.empty()) return 0;
  try {
    return plan::parse_bytes(text);
  } catch (const std::invalid_argument& error) {
    throw Error(Fault::usage, flag + ": " + error.what());
  }
}

/// Nothing where no budget is given.
std::optional<Budget> budget_of(const Settings& settings) {
  const Budget budget{budget_bytes("--activation-budget", settings.activation_budget),
                      budget_bytes("--memory-budget", settings.memory_budget)};
  if (budget.activation_bytes == 0 && budget.memory_bytes == 0) return std::nullopt;
  if (budget.activation_bytes > 0 && budget.memory_bytes > 0)
    throw Error(Fault::usage, "give either --activation-budget or --memory-budget");
  if (settings.activation_checkpointing != "none")
    throw Error(Fault::usage,
                "a budget decides what is recomputed: leave --activation-checkpointing out");
  return budget;
}

std::vector<plan::Plan> known_plans(const Settings& settings) {
  if (settings.plan.empty()) return {};
  try {
    return {plan::read_plan(fs::path(settings.plan))};
  } catch (const std::runtime_error& error) {
    throw Error(Fault::data, std::string("--plan: ") + error.what());
  }
}

std::unique_ptr<Session> make_session(const Settings& settings) {
  const auto budget = budget_of(settings);
  if (budget) return std::make_unique<Session>(*budget, known_plans(settings));
  if (!settings.plan.empty())
    throw Error(Fault::usage, "--plan needs the --activation-budget or --memory-budget it is for");
  return nullptr;
}

int64_t batch_size_in_budget(const Settings& settings, const Model& model, const Dataset& data) {
  const auto budget = budget_of(settings);
  if (!budget)
    throw Error(Fault::usage,
                "--per-device-train-batch-size auto looks for the most rows that fit a budget: "
                "give --activation-budget or --memory-budget");
  const auto live = static_cast<int64_t>(memory::live_bytes());
  return largest_batch_size(
      model, data,
      budget->memory_bytes > 0 ? budget->memory_bytes - live : budget->activation_bytes);
}

int64_t folder_bytes(const fs::path& folder) {
  int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    bytes += static_cast<int64_t>(entry.file_size());
  }
  return bytes;
}

int64_t elements(const NamedTensors& tensors) {
  int64_t count = 0;
  for (const auto& [name, tensor] : tensors) count += tensor.numel();
  return count;
}

}  // namespace

// ---- Start
// ---------------------------------------------------------------------------------------

Trainer::Trainer(Settings settings, Listener& listener)
    : settings_(std::move(settings)),
      listener_(listener),
      checkpoint_(find_checkpoint(settings_, listener)),
      files_(find_data(settings_.data, settings_.eval_data, settings_.model)),
      train_(load_data(files_.train, settings_)),
      model_(settings_, checkpoint_),
      session_(make_session(settings_)),
      optimizer_(model_.trained(), settings_.optimizer),
      sampler_(make_sampler()),
      steps_(count_steps(settings_, sampler_)),
      schedule_(schedule_shape(settings_.schedule), settings_.rate(), steps_, settings_.warmup),
      checkpoints_(settings_.output, static_cast<size_t>(settings_.save_total_limit)),
      state_(initial_state(settings_, files_.train)) {
  if (!files_.valid.empty()) valid_ = load_data(files_.valid, settings_);
  if (!settings_.sample_prompt.empty()) tokenizer_.emplace(settings_.model);
  if (settings_.resume.empty()) checkpoints_.clear();
  checkpoints_.clean();
  if (!checkpoint_.empty()) resume();
}

/// Settles the size of micro-batches, too. It stays what it was where a training goes on: the rows
/// of every step depend on it.
Sampler Trainer::make_sampler() {
  if (settings_.batch_size == kLargestBatch) {
    settings_.batch_size = checkpoint_.empty() ? batch_size_in_budget(settings_, model_, train_)
                                               : saved_batch_size(checkpoint_);
  }
  return Sampler({train_.rows(), settings_.batch_size, settings_.accumulation, settings_.shuffle,
                  settings_.seed});
}

void Trainer::resume() {
  state_ = load_state(checkpoint_, state_);
  optimizer_.load(checkpoint_ / "optimizer.safetensors");
  first_step_ = state_.step;
}

StartReport Trainer::start_report() const {
  StartReport report;
  report.steps = steps_;
  report.first_step = first_step_;
  report.batch_size = settings_.batch_size;
  report.accumulation = settings_.accumulation;
  report.rows = train_.rows();
  report.tokens = train_.tokens();
  report.trained_tokens = train_.trained();
  report.longest_row = train_.longest();
  report.truncated_rows = train_.truncated();
  report.eval_rows = valid_ ? valid_->rows() : 0;
  report.parameters = elements(model_.decoder().named_parameters());
  report.trained_parameters = elements(model_.trained());
  report.weight_bytes = static_cast<int64_t>(memory::live_bytes());
  return report;
}

// ---- Steps
// ---------------------------------------------------------------------------------------

Trainer::End Trainer::run(const std::atomic<bool>& stop) {
  listener_.on_start(start_report());
  while (state_.step < steps_) {
    train_step();
    const bool last = state_.step == steps_;
    if (stop && !last) {
      save_checkpoint();
      return End::stopped;
    }
    if (last || is_due(settings_.eval_steps)) evaluate_and_sample();
    if (settings_.save_steps > 0 && (last || is_due(settings_.save_steps))) save_checkpoint();
  }
  save_final();
  return End::done;
}

bool Trainer::is_due(int64_t interval) const { return interval > 0 && state_.step % interval == 0; }

void Trainer::train_step() {
  const auto start = Clock::now();
  at::manual_seed(seed_of(settings_.seed, state_.step));
  std::vector<Batch> batches;
  for (const auto& rows : sampler_.at(state_.step)) batches.push_back(make_batch(train_, rows));

  const auto passes = passes_of(batches);
  const double grad_norm = optimizer_.clip(settings_.max_grad_norm);
  if (!std::isfinite(passes.loss) || !std::isfinite(grad_norm)) {
    throw Error(Fault::non_finite, "step " + std::to_string(state_.step + 1) + ": the loss is " +
                                       std::to_string(passes.loss) + ", its gradient's norm " +
                                       std::to_string(grad_norm) +
                                       "; lower --learning-rate, or go on from a checkpoint with "
                                       "other data");
  }
  const double rate = schedule_.at(state_.step);
  optimizer_.step(rate);

  ++state_.step;
  state_.tokens_seen += passes.tokens;
  report_step(passes, grad_norm, rate, seconds_since(start));
}

Passes Trainer::passes_of(const std::vector<Batch>& batches) {
  try {
    return forward_and_backward(model_, batches, session_.get());
  } catch (const DoesNotFit& misfit) {
    throw Error(Fault::budget, misfit.what());
  }
}

void Trainer::report_step(const Passes& passes, double grad_norm, double rate, double seconds) {
  seconds_here_ += seconds;
  state_.seconds += seconds;
  if (!is_due(settings_.logging_steps) && state_.step != steps_) return;
  StepReport report;
  report.step = state_.step;
  report.steps = steps_;
  report.epoch = static_cast<double>(state_.step) / static_cast<double>(sampler_.steps_per_epoch());
  report.loss = passes.loss;
  report.learning_rate = rate;
  report.grad_norm = grad_norm;
  report.tokens = passes.tokens;
  report.tokens_seen = state_.tokens_seen;
  report.seconds = seconds;
  report.tokens_per_second = static_cast<double>(passes.tokens) / seconds;
  report.peak_bytes = static_cast<int64_t>(memory::peak_bytes());
  report.activation_peak_bytes = passes.peak_bytes;
  report.after_forward_bytes = passes.after_forward_bytes;
  report.ops_replayed = stats().ops_replayed;
  if (session_) {
    report.budget_bytes = session_->report().budget_bytes;
    report.planned_peak_bytes = session_->report().planned_peak;
  }
  report.seconds_left = seconds_here_ / static_cast<double>(state_.step - first_step_) *
                        static_cast<double>(steps_ - state_.step);
  listener_.on_step(report);
}

// ---- Between steps
// -------------------------------------------------------------------------------

void Trainer::evaluate_and_sample() {
  if (valid_) {
    auto report = evaluate(model_, *valid_, settings_.batch_size);
    report.step = state_.step;
    listener_.on_evaluation(report);
  }
  if (!tokenizer_) return;
  GenerationConfig config;
  config.max_new_tokens = settings_.sample_tokens;
  const auto tokens =
      generate(model_.decoder(), tokenizer_->encode(settings_.sample_prompt), config);
  listener_.on_sample(state_.step, settings_.sample_prompt + tokenizer_->decode(tokens));
}

void Trainer::save_checkpoint() {
  const auto start = Clock::now();
  SaveReport report;
  report.step = state_.step;
  report.folder = checkpoints_.save(state_.step, [&](const fs::path& folder) {
    model_.save(folder);
    optimizer_.save(folder / "optimizer.safetensors");
    save_state(state_, folder);
  });
  report.bytes = folder_bytes(report.folder);
  report.seconds = seconds_since(start);
  listener_.on_save(report);
}

void Trainer::save_final() {
  const auto start = Clock::now();
  SaveReport report;
  report.step = state_.step;
  report.folder = fs::path(settings_.output) / "final";
  save_folder(report.folder, [&](const fs::path& folder) { model_.save(folder); });
  if (session_ && session_->plan() != nullptr) {
    std::ostringstream text;
    plan::write_plan(*session_->plan(), text);
    replace_text(fs::path(settings_.output) / "plan.json", text.str());
  }
  report.bytes = folder_bytes(report.folder);
  report.seconds = seconds_since(start);
  listener_.on_save(report);
}

}  // namespace remat::finetune
