#include "remat/session.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <numeric>
#include <sstream>

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/graph_task.h>

#include "remat/budget/follower.h"
#include "remat/budget/sizes.h"
#include "remat/memory/ledger.h"
#include "remat/memory/memory.h"
#include "remat/recorder_of_thread.h"
#include "remat/replay/replayer.h"
#include "remat/saved/engine.h"

namespace remat {

namespace {

constexpr double kMiB = 1 << 20;

/// The first step pays for cold caches and fresh pages, and one sample is noise: a plan is made
/// again when so many steps were timed.
constexpr int kTimedSteps = 4;

/// Bytes left free of a budget: a few small tensors come and go differently from step to step.
int64_t slack(int64_t bytes) { return std::min<int64_t>(64 << 10, bytes / 100); }

/// The results of which operators take most of what backward wants: "aten::mm 120.0 MiB, ...".
std::string largest_parts(const plan::Trace& trace) {
  std::map<std::string, int64_t> by_name;
  for (plan::ValueId value = 0; value < trace.values(); ++value) {
    if (trace.saved(value)) by_name[trace.name(trace.producer(value))] += trace.bytes(value);
  }
  std::vector<std::pair<int64_t, std::string>> sorted;
  for (const auto& [name, bytes] : by_name) sorted.emplace_back(bytes, name);
  std::sort(sorted.rbegin(), sorted.rend());
  std::ostringstream text;
  text << std::fixed << std::setprecision(1);
  for (size_t i = 0; i < std::min<size_t>(3, sorted.size()); ++i)
    text << (i == 0 ? "" : ", ") << sorted[i].second << " "
         << static_cast<double>(sorted[i].first) / kMiB << " MiB";
  return text.str();
}

/// The most that was live since this was asked, or since the recording began. Tells its profile.
int64_t take_peak(const record::Recording* recording) {
  const auto peak = static_cast<int64_t>(memory::ledger().take_window_peak());
  if (recording == nullptr || !recording->profile) return peak;
  recording->profile->saw(peak);
  return std::max(peak, recording->profile->peak());
}

/// What happens behind it is not the plan's: the optimizer's step.
struct BackwardPass {
  int64_t graph_task = -1;
  int64_t peak = 0;  ///< live bytes; 0: it has not ended
};

}  // namespace

/// One step at a time: begun, its backward led by a plan or measured, ended.
struct Session::State {
  State(const Budget& given, std::vector<plan::Plan> plans)
      : budget(given), known(std::move(plans)) {}

  void begin();
  void backward_begins();
  void let_go();
  void end();
  void learn(const record::Recording& recorded);
  void judge_plan();
  void insert(std::shared_ptr<const budget::Guide> made);
  void time_again(const record::Recording& recorded);
  void add_plan(const record::Recording& recorded);
  void plan_again_what_no_longer_fits();
  [[nodiscard]] std::optional<plan::Plan> known_plan_for(const budget::Guide& step) const;
  [[nodiscard]] bool wants_profile() const;
  plan::Planned search(const budget::Guide& step);
  plan::Plan plan_for(const budget::Guide& step);
  [[noreturn]] void report_misfit(int64_t least_bytes, const plan::Trace& step) const;
  [[nodiscard]] int64_t planning_budget() const {
    return report.budget_bytes - margin - slack(report.budget_bytes);
  }

  Budget budget;
  std::vector<plan::Plan> known;
  SessionReport report;
  budget::Guides guides;
  std::shared_ptr<const plan::Trace> trace;  ///< of the step that was measured last
  /// By how much measured peaks exceeded planned ones: what the step that was measured did not
  /// show.
  int64_t margin = 0;
  budget::Sizes sizes;

  // Of the step that is under way.
  std::shared_ptr<record::Recording> recording;
  std::shared_ptr<record::Recorder> recorder;
  std::shared_ptr<budget::Follower> follower;
  std::shared_ptr<const budget::Guide> guide;  ///< set where backward follows a plan
  int64_t live_before = 0;
  std::shared_ptr<BackwardPass> backward;  ///< shared with a callback that may outlive the session
};

void Session::State::begin() {
  TORCH_CHECK(record::Recorder::current() == nullptr,
              "remat: a step of a session cannot begin inside an open region. Close the region, or "
              "leave it out: the session decides what to keep.");
  live_before = static_cast<int64_t>(memory::live_bytes());
  backward = std::make_shared<BackwardPass>();
  memory::ledger().take_window_peak();
  report.budget_bytes =
      budget.activation_bytes > 0 ? budget.activation_bytes : budget.memory_bytes - live_before;
  TORCH_CHECK(report.budget_bytes > 0, "remat: ", budget.memory_bytes,
              " bytes are the memory budget and ", live_before,
              " bytes are live before the step. Raise the budget, or train a smaller model.");
  guide.reset();
  if (!record::can_record()) return;
  plan_again_what_no_longer_fits();
  const bool profiled = wants_profile();
  follower = std::make_shared<budget::Follower>(guides, sizes.to_measure());
  recorder = recorder_of_thread();
  recording = recorder->recording();
  recording->whole = true;
  if (profiled) recording->profile = std::make_unique<record::Profile>(live_before);
  recording->on_backward = [this] { backward_begins(); };
  recorder->open_region(
      {"plan", [follows = follower](const policy::Facts& facts) { return follows->decide(facts); },
       policy::Wants()});
}

/// Taking times is not free: it ends when all kinds of steps that are known were timed enough.
bool Session::State::wants_profile() const {
  const auto unsettled = [](const auto& known) { return known->timed_steps < kTimedSteps; };
  return guides.empty() || !sizes.to_measure().empty() ||
         std::any_of(guides.begin(), guides.end(), unsettled);
}

void Session::State::backward_begins() {
  // A function of the model's differentiates inside a region of its own: forward goes on.
  if (recorder->is_this_thread() && recorder->open_regions() > 1) {
    recording->on_backward = [this] { backward_begins(); };
    return;
  }
  guide = follower->led_by(*recording);
  const bool mine = recorder->is_this_thread() && record::Recorder::current() == recorder.get();
  const auto segments = static_cast<size_t>(std::ceil(std::sqrt(1 + recording->tape.nodes())));
  if (mine) recorder->close_region(1, guide ? 1 : segments);
  backward->graph_task = torch::autograd::get_current_graph_task_id();
  saved::when_backward_ends([pass = backward, recording = std::weak_ptr(recording)] {
    pass->peak = take_peak(recording.lock().get());
  });
  if (guide) static_cast<replay::Replayer&>(*recording->source).follow(guide->schedule);
}

void Session::State::end() {
  if (!recording) return;
  ++report.steps;
  const auto ended = recording;
  let_go();
  learn(*ended);
}

/// The graph may outlive the step, and the session.
void Session::State::let_go() {
  if (!recording) return;
  if (recording->open) recorder->close_region(1, 1);  // backward never began
  {
    const auto lock = recording->lock();
    recording->on_backward = nullptr;
  }
  recording.reset();
  recorder.reset();
}

/// After backward: judges the plan that led the step, or makes one.
void Session::State::learn(const record::Recording& recorded) {
  const auto& replayer = static_cast<const replay::Replayer&>(*recorded.source);
  const int64_t asked_last = replayer.graph_task();
  const bool again = asked_last != record::SavedState::kNever && asked_last != backward->graph_task;
  auto peak = backward->peak;
  if (peak == 0 || again) peak = std::max(peak, take_peak(&recorded));
  report.measured_peak = peak - live_before;
  report.planned_peak = 0;
  report.recompute_percent = 0;
  if (guide && replayer.follows()) {
    judge_plan();
    if (!follower->is_of(*guide)) {
      sizes.led_by_larger(follower->first_bytes());
    } else if (recorded.profile && guide->timed_steps < kTimedSteps) {
      time_again(recorded);
    }
  } else if (follower->has_kept() || !recorded.profile) {
    std::erase(guides, guide);  // null, or one that backward left
    sizes.measure_next(follower->first_bytes());
  } else if (!recorded.profile->steps.empty()) {
    add_plan(recorded);
  }
}

/// Where the peak was higher than planned and too high, plans leave more room from now on.
void Session::State::judge_plan() {
  ++report.followed;
  report.planned_peak = guide->plan.cost.peak;
  report.recompute_percent = guide->plan.recompute_percent();
  const int64_t excess = report.measured_peak - report.planned_peak;
  if (report.measured_peak > report.budget_bytes) margin = std::max(margin, excess);
}

/// Adds the times of this step to its guide's, and makes the plan again when there are enough.
void Session::State::time_again(const record::Recording& recorded) {
  auto timed = budget::timed_again(*guide, recorded);
  auto plan = timed.plan;
  if (timed.timed_steps == kTimedSteps) {
    timed.trace = budget::averaged_trace(timed, recorded.tape);
    trace = timed.trace;
    plan = plan::resimulated(plan, *timed.trace);
    auto found = search(timed);
    if (found.plan && found.plan->cost.us < plan.cost.us) plan = std::move(*found.plan);
  }
  const auto place = std::find(guides.begin(), guides.end(), guide);
  *place = budget::with_plan(std::move(timed), std::move(plan));
}

void Session::State::add_plan(const record::Recording& recorded) {
  const auto is_known = [&](const auto& other) { return follower->is_of(*other); };
  if (std::any_of(guides.begin(), guides.end(), is_known))
    return sizes.measure_next(follower->first_bytes());  // it was meant for another kind
  sizes.planned(follower->first_bytes());
  auto measured = budget::guide_of(recorded);
  trace = measured.trace;
  auto found = known_plan_for(measured);
  if (found) measured.timed_steps = kTimedSteps;  // a given plan stays
  auto plan = found ? std::move(*found) : plan_for(measured);
  report.planned_peak = plan.cost.peak;
  report.recompute_percent = plan.recompute_percent();
  insert(budget::with_plan(std::move(measured), std::move(plan)));
}

void Session::State::insert(std::shared_ptr<const budget::Guide> made) {
  const auto bytes = [](const auto& of) {
    return std::accumulate(of->bytes.begin(), of->bytes.end(), int64_t{0});
  };
  const auto place =
      std::upper_bound(guides.begin(), guides.end(), made,
                       [&](const auto& a, const auto& b) { return bytes(a) < bytes(b); });
  guides.insert(place, std::move(made));
}

/// A budget of all memory leaves less for activations once gradients and optimizer state are there,
/// and the margin grows.
void Session::State::plan_again_what_no_longer_fits() {
  for (auto& guide : guides) {
    if (guide->plan.cost.peak > planning_budget())
      guide = budget::with_plan(*guide, plan_for(*guide));
  }
}

/// The cheapest of the plans that were given which is for this step and fits.
std::optional<plan::Plan> Session::State::known_plan_for(const budget::Guide& step) const {
  std::optional<plan::Plan> best;
  for (const auto& given : known) {
    if (plan::match(given, *step.trace) == plan::Match::other_step) continue;
    auto here = plan::resimulated(given, *step.trace);
    if (here.cost.peak > planning_budget()) continue;
    if (!best || here.cost.us < best->cost.us) best = std::move(here);
  }
  return best;
}

plan::Planned Session::State::search(const budget::Guide& step) {
  auto found = plan::plan_within(*step.trace, std::max<int64_t>(1, planning_budget()));
  report.plan_seconds += found.seconds;
  return found;
}

plan::Plan Session::State::plan_for(const budget::Guide& step) {
  auto found = search(step);
  if (!found.plan) report_misfit(found.least_budget, *step.trace);
  ++report.plans;
  return std::move(*found.plan);
}

void Session::State::report_misfit(int64_t least_bytes, const plan::Trace& step) const {
  const auto mib = [](int64_t bytes) { return static_cast<double>(bytes) / kMiB; };
  const int64_t fixed = budget.memory_bytes > 0 ? live_before : 0;
  const int64_t of_step = least_bytes + margin;
  // Once for the plan, and once for how the next measurement differs.
  const int64_t least = of_step + 2 * slack(of_step + of_step / 25) + fixed;
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << "remat: the step does not fit its budget of "
       << mib(report.budget_bytes + fixed) << " MiB. The least that fits is " << mib(least)
       << " MiB";
  if (fixed > 0) text << " (" << mib(fixed) << " MiB of it are live before the step)";
  text << ". What backward wants most of: " << largest_parts(step)
       << ". Raise the budget, or take a smaller batch or shorter sequences.";
  throw DoesNotFit(text.str(), least);
}

Session::Session(const Budget& budget, std::vector<plan::Plan> known)
    : state_(std::make_unique<State>(budget, std::move(known))) {
  TORCH_CHECK((budget.activation_bytes > 0) != (budget.memory_bytes > 0),
              "remat: a session has either a positive activation budget or a positive memory "
              "budget, in bytes");
  TORCH_CHECK(memory::is_installed(),
              "remat: a budget needs counted bytes. Call remat::memory::install() before the model "
              "is made.");
}

Session::~Session() { state_->let_go(); }

Session::Step Session::step() {
  state_->end();
  state_->begin();
  return Step(this);
}

const SessionReport& Session::report() const { return state_->report; }

const plan::Plan* Session::plan() const { return state_->guide ? &state_->guide->plan : nullptr; }

const plan::Trace* Session::trace() const { return state_->trace.get(); }

Session::Step::Step(Step&& other) noexcept : session_(std::exchange(other.session_, nullptr)) {}

void Session::Step::end() {
  if (auto* session = std::exchange(session_, nullptr)) session->state_->end();
}

Session::Step::~Step() {
  try {
    end();
  } catch (...) {  // a destructor that runs because of an exception must not throw another
  }
}

}  // namespace remat
