#include "remat/record/recorder.h"

#include <algorithm>
#include <cmath>
#include <pthread.h>
#include <string_view>

#include <ATen/Context.h>
#include <ATen/SavedTensorHooks.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/graph_task.h>

#include "remat/record/arguments.h"

namespace remat::record {

using tape::BufferId;
using tape::kNone;
using tape::NodeId;
using tape::ValueId;

namespace {

/// Open regions are pruned when they have this many nodes or hold this many bytes, then whenever
/// the nodes that were left have doubled or the bytes have grown by a quarter: a loop without
/// gradients inside a region (generation, metrics) would grow without bound, and a policy would
/// hold what nobody needs.
constexpr size_t kFirstPruneNodes = 4096;
constexpr size_t kFirstPruneBytes = size_t{32} << 20U;

/// Larger regions are whole steps rather than layers: recomputing one at once would take the memory
/// of plain training.
constexpr size_t kLargestLayer = 512;

thread_local Recorder* current_recorder = nullptr;
thread_local bool paused = false;

std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& event);
void on_end(const at::RecordFunction& event, at::ObserverContext*);

/// Autograd gives every node of a backward pass the observers that were there when the pass began,
/// and the thread afterwards its own of that time: where a region closes in backward, its observer
/// comes back. Without this every step would leave one more.
void remove_observers() {
  const auto is_ours = [](const auto& entry) { return entry.callback_.start() == on_begin; };
  const auto& observers = at::get_record_function_tls_().sorted_tls_callbacks_;
  for (;;) {
    const auto ours = std::find_if(observers.begin(), observers.end(), is_ours);
    if (ours == observers.end()) return;
    at::removeCallback(ours->handle_);
  }
}

std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& event) {
  if (current_recorder == nullptr) {
    remove_observers();
  } else if (!paused) {
    current_recorder->begin(event);
  }
  return nullptr;
}

void on_end(const at::RecordFunction& event, at::ObserverContext*) {
  if (current_recorder != nullptr && !paused) current_recorder->end(event);
}

/// A forked child (a DataLoader worker) inherits the thread's recorder but never closes its region:
/// it would record for ever.
void drop_recorder_in_child() { current_recorder = nullptr; }

void watch_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, drop_recorder_in_child);
  static_cast<void>(registered);
}

const at::RecordFunctionCallback& observer() {
  static const auto& callback =
      *new at::RecordFunctionCallback(at::RecordFunctionCallback(on_begin, on_end)
                                          .needsInputs(true)
                                          .needsOutputs(true)
                                          .scopes({at::RecordScope::FUNCTION}));
  return callback;
}

/// True iff the event is none of a function of the user's: it is the part of an operator in which a
/// dispatch mode or a tensor subclass decides, in Python, what to call in its place, or a node of a
/// backward pass that runs in the region and is recorded by its operators.
bool is_interpreter(const at::RecordFunction& event) {
  const std::string_view name = event.name();
  return name == "PythonDispatchMode" || name == "PythonSubclass" ||
         name.starts_with("autograd::engine::evaluate_function");
}

HooksFactory hooks_factory = nullptr;

size_t users_hooks() { return at::SavedTensorDefaultHooks::get_tls_state().stack.size(); }

bool is_plain_backward() {
  return torch::autograd::get_current_graph_task_id() != -1 && !c10::GradMode::is_enabled();
}

}  // namespace

void set_hooks_factory(HooksFactory factory) { hooks_factory = factory; }

bool can_record() {
  if (!c10::GradMode::is_enabled() || c10::InferenceMode::is_enabled()) return false;
  if (!c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode))
    return true;
  TORCH_WARN_ONCE(
      "remat: a region inside a torch.func transform (grad, vmap, jvp) runs plainly: right, but "
      "nothing is "
      "recomputed. Put the region around the transform to save memory.");
  return false;
}

Recorder::Pause::Pause() : was_(std::exchange(paused, true)) {}
Recorder::Pause::~Pause() { paused = was_; }

Recorder::~Recorder() {
  if (current_recorder == this) current_recorder = nullptr;
}

void Recorder::start(std::shared_ptr<Recording> recording) {
  watch_forks();
  recording_ = std::move(recording);
  memories_.start(*recording_);
  balance_.start(*recording_);
  failure_ = nullptr;
  abandoned_ = false;
  prune_at_nodes_ = kFirstPruneNodes;
  prune_at_bytes_ = kFirstPruneBytes;
  held_bytes_ = 0;
  recorded_ = 0;
  depth_ = 0;
  modes_.clear();
  counted_later_.clear();
  last_draw_ = kNone;
  clear_leaf();
  remove_observers();
  observer_ = at::addThreadLocalCallback(observer());
  current_recorder = this;
}

Recorder* Recorder::current() { return current_recorder; }

void Recorder::open_region(const policy::Policy& policy) {
  const auto lock = recording_->lock();
  const auto id =
      regions_.empty() ? tape::kOutermost : recording_->tape.open_region(regions_.back().id);
  // A plan knows every operator of the step, those in regions of the model's own included.
  const bool planned = recording_->whole && !regions_.empty();
  const size_t hooks = users_hooks();
  if (regions_.empty()) recording_->hooked = hooks > 0;
  regions_.push_back(
      {.id = id, .policy = planned ? regions_.back().policy : policy, .hooks = hooks});
}

void Recorder::close_region(size_t depth, size_t segments) {
  if (depth > regions_.size()) return;  // closed with a region around it
  if (!is_this_thread()) {
    abandoned_ = true;
    return;
  }
  const bool in_order = depth == regions_.size();
  const size_t hooks = regions_.front().hooks;
  const Region closing = std::move(regions_[depth - 1]);
  regions_.erase(regions_.begin() + static_cast<ptrdiff_t>(depth - 1), regions_.end());
  if (in_order && !failure_) cut(closing, segments);
  if (regions_.empty()) stop(hooks);
  TORCH_CHECK(in_order,
              "remat: regions must be closed in the reverse order of opening: a region opened "
              "inside this one "
              "was still open (a generator that yields inside a region leaves it open in its "
              "caller). Both are closed now.");
}

void Recorder::cut(const Region& region, size_t segments) {
  if (segments == 1 || (segments == 0 && region.id != tape::kOutermost)) return;
  const auto lock = recording_->lock();
  auto& tape = recording_->tape;
  size_t nodes = 0;
  for (NodeId id = 0; id < tape.nodes(); ++id) nodes += tape.node(id).region == region.id ? 1 : 0;
  if (segments == 0 && nodes > kLargestLayer)
    segments = static_cast<size_t>(std::ceil(std::sqrt(nodes)));
  if (segments > 1) tape.cut(region.id, segments);
}

void Recorder::stop(size_t hooks) {
  if (current_recorder != this) return;
  regions_.clear();
  at::removeCallback(observer_);
  silenced_ = false;
  current_recorder = nullptr;
  settle_pending();
  clear_leaf();
  memories_.stop();
  std::vector<std::unique_ptr<Held>> freed;
  const auto recording =
      std::exchange(recording_, nullptr);  // the last reference may go, after the lock
  {
    const auto lock = recording->lock();
    recording->open = false;
    settle_balance(*recording, freed);
    recording->prune({}, freed);
  }
  give_to_hooks(*recording, hooks, freed);
  const auto lock = recording->lock();
  recording->copy_shared(shared_copies_, freed);
}

/// Hooks around a region, which offload or compress, see what it keeps, as they see the inputs of
/// torch's checkpoint.
void Recorder::give_to_hooks(Recording& recording, size_t hooks,
                             std::vector<std::unique_ptr<Held>>& freed) {
  const bool still_there = hooks > 0 && users_hooks() == hooks && hooks_factory != nullptr;
  if (!still_there || failure_) return;
  try {
    recording.pack(hooks_factory, freed);
  } catch (...) {
    fail(std::current_exception());
  }
}

/// What was kept for now is recomputed if that pays after all, and else counts as kept.
void Recorder::settle_balance(Recording& recording, std::vector<std::unique_ptr<Held>>& freed) {
  if (balance_.kept().empty()) return;
  if (balance_.pays_in_the_end()) return let_go_of_balance(recording, freed);
  for (const auto& saved : recording.tape.saved()) {
    const Held* held = saved.value == kNone ? nullptr : recording.find_held(saved.value);
    if (held != nullptr && held->kept_for_now)
      counters().move(saved.bytes, Reason::recomputed, Reason::cheaper);
  }
  for (const ValueId value : balance_.kept()) {
    if (Held* held = recording.find_held(value)) held->kept_for_now = false;
  }
  balance_.let_go();
}

void Recorder::let_go_of_balance(Recording& recording, std::vector<std::unique_ptr<Held>>& freed) {
  for (const ValueId value : balance_.kept()) {
    const Held* held = recording.find_held(value);
    if (held != nullptr && held->kept_for_now) freed.push_back(std::move(recording.held[value]));
  }
  balance_.let_go();
}

void Recorder::verify() {
  const auto lock = recording_->lock();
  if (!recording_->verification) recording_->verification = std::make_unique<Verification>();
}

void Recorder::note_given(const at::Tensor& tensor, tape::SavedId saved) {
  if (failure_ || abandoned_ || kind_of(tensor) != Kind::plain) return;
  const auto lock = recording_->lock();
  const ValueId value = recording_->tape.saved()[saved].value;
  if (value != kNone) memories_.moved_to(value, tensor);
}

void Recorder::note_exposed(const at::Tensor& tensor) {
  if (failure_ || abandoned_ || !is_this_thread() || kind_of(tensor) != Kind::plain) return;
  const Pause pause;
  const auto lock = recording_->lock();
  if (memories_.knows(tensor)) recording_->memories[memories_.see_again(tensor)].exposed = true;
}

/// Called from inside its forward, when nothing else of it has run. A declared Function that an
/// opaque one calls belongs to that one.
void Recorder::open_function(std::string_view name) {
  const bool runs = leaf_ == Leaf::opaque && depth_ == leaf_depth_ && op_ == nullptr;
  if (runs && name == function_) clear_leaf();
}

void Recorder::fail(std::exception_ptr error) {
  if (!failure_) failure_ = std::move(error);
}

// ---- What a call is
// ------------------------------------------------------------------------------------------------

void Recorder::begin(const at::RecordFunction& event) {
  ++depth_;
  if (leaf_ == Leaf::opaque && !failure_) begin_inside_opaque(event);
  if (leaf_ != Leaf::none) return;
  try {
    const Operator* op = Operator::of(event);
    at::ArrayRef<c10::IValue> arguments(event.inputs().data(), event.inputs().size());
    // Interpreters call with their whole stack: only its top is this operator's.
    if (op != nullptr && arguments.size() > op->arguments.size())
      arguments = last(arguments, op->arguments.size());
    op_ = op;
    function_ = event.name();
    leaf_ = classify(event, op, arguments);
    if (leaf_ == Leaf::none) {
      if (op != nullptr && op->writes && is_for_a_mode()) modes_.push_back(depth_);
      return;
    }
    leaf_depth_ = depth_;
    exceptions_ = std::uncaught_exceptions();
    if (leaf_ == Leaf::recorded) begin_recorded(arguments);
    if (leaf_ == Leaf::opaque) begin_opaque(arguments);
    if (leaf_ == Leaf::ignored && op != nullptr && op->writes && !op->view && !failure_)
      protect_from_unrecorded(*op, arguments);
    if (leaf_ == Leaf::recorded || (op_ != nullptr && op_->view)) silence_inner_calls();
  } catch (...) {
    fail(std::current_exception());
  }
}

/// Custom code may write what it was not given.
void Recorder::begin_inside_opaque(const at::RecordFunction& event) {
  try {
    const Operator* op = Operator::of(event);
    if (op == nullptr || !op->writes || op->view) return;
    at::ArrayRef<c10::IValue> arguments(event.inputs().data(), event.inputs().size());
    if (arguments.size() > op->arguments.size()) arguments = last(arguments, op->arguments.size());
    protect_from_unrecorded(*op, arguments);
  } catch (...) {
    fail(std::current_exception());
  }
}

void Recorder::end(const at::RecordFunction& event) {
  if (depth_ == 0) return;  // it began before the region was opened
  const bool ends_leaf = leaf_ != Leaf::none && depth_ == leaf_depth_;
  if (leaf_ == Leaf::none && !modes_.empty() && modes_.back() == depth_) leave_mode();
  --depth_;
  if (!ends_leaf) return;
  try {
    if (!failure_ && leaf_ == Leaf::recorded) end_recorded(event);
    if (!failure_ && leaf_ == Leaf::opaque) end_opaque();
    if (!failure_ && leaf_ == Leaf::ignored && op_ != nullptr && op_->reshapes)
      end_reshaping(event);
  } catch (...) {
    fail(std::current_exception());
  }
  settle_pending();
  clear_leaf();
  prune_if_grown();
}

/// The tensor's version counter has moved, and its bytes are what they were.
void Recorder::end_reshaping(const at::RecordFunction& event) {
  if (event.outputs().empty() || !event.outputs()[0].isTensor()) return;
  const at::Tensor& tensor = event.outputs()[0].toTensor();
  if (kind_of(tensor) != Kind::plain) return;
  const auto lock = recording_->lock();
  if (memories_.knows(tensor)) memories_.count_without_a_write(tensor);
}

/// Half of the cost of recording is the events of calls inside an operator, which belong to it and
/// are ignored: none are asked for while it runs. The event that is under way still ends here.
void Recorder::silence_inner_calls() {
  at::disableCallback(observer_);
  silenced_ = true;
}

void Recorder::clear_leaf() {
  if (std::exchange(silenced_, false)) at::reenableCallback(observer_);
  leaf_ = Leaf::none;
  leaf_depth_ = 0;
  reads_.clear();
  written_.clear();
  overlapped_.clear();
  beside_.clear();
  graveyard_.clear();
  compared_.clear();
  draw_ = kNone;
  recordable_ = true;
}

Recorder::Leaf Recorder::classify(const at::RecordFunction& event, const Operator* op,
                                  at::ArrayRef<c10::IValue> arguments) {
  if (op == nullptr && is_interpreter(event)) return Leaf::none;
  if (failure_ || abandoned_ || is_plain_backward()) return Leaf::ignored;
  if (op == nullptr) return Leaf::opaque;
  if (is_transparent(*op, arguments)) return Leaf::none;
  if (op->view) return Leaf::ignored;
  return op->trust == Operator::Trust::aten ? Leaf::recorded : Leaf::opaque;
}

bool Recorder::is_transparent(const Operator& op, at::ArrayRef<c10::IValue> arguments) {
  const auto device = device_of(arguments);
  if (op.is_composite(device) || op.is_autocast(device)) return true;
  if (is_for_a_mode()) return true;
  bool wrapped = false;
  for_each_tensor(arguments, [&](const at::Tensor& tensor) {
    wrapped = wrapped || kind_of(tensor) == Kind::wrapper;
  });
  return wrapped;
}

/// True iff a dispatch mode is there to handle the call, which then makes others.
bool Recorder::is_for_a_mode() {
  return c10::impl::TorchDispatchModeTLS::any_modes_set() &&
         !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Python);
}

void Recorder::prune_if_grown() {
  if (recording_->whole) return;
  if (recording_->tape.nodes() < prune_at_nodes_ && held_bytes_ < prune_at_bytes_) return;
  std::vector<std::unique_ptr<Held>> freed;
  const auto lock = recording_->lock();
  if (const auto left = recording_->prune(memories_.live_values(), freed)) balance_.renumber(*left);
  last_draw_ = kNone;
  memories_.rebuild();
  held_bytes_ = 0;
  for (const auto& held : recording_->held)
    held_bytes_ += held && held->storage ? held->storage.nbytes() : 0;
  prune_at_nodes_ = std::max(kFirstPruneNodes, 2 * recording_->tape.nodes());
  prune_at_bytes_ = std::max(kFirstPruneBytes, held_bytes_ + held_bytes_ / 4);
}

}  // namespace remat::record
