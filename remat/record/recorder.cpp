#include "remat/record/recorder.h"

#include <ATen/Context.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <pthread.h>
#include <torch/csrc/autograd/graph_task.h>

#include <cmath>

#include "remat/record/spot.h"

namespace remat::record {

using tape::BufferId;
using tape::kNone;
using tape::NodeId;
using tape::ValueId;

namespace {

/// Sources up to this size are copied when first read, so that a staging buffer may be refilled before backward, as it
/// may in plain training.
constexpr size_t kSmallSource = 64 * 1024;

/// Open regions are pruned when they have this many nodes or hold this many bytes, then whenever what was left has
/// doubled: a loop without gradients inside a region (generation, metrics) would grow without bound.
constexpr size_t kFirstPruneNodes = 4096;
constexpr size_t kFirstPruneBytes = size_t{32} << 20U;

/// Larger regions are whole steps rather than layers: recomputing one at once would take the memory of plain training.
constexpr size_t kLargestLayer = 512;

thread_local Recorder* current_recorder = nullptr;
thread_local bool paused = false;

std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& event) {
  if (current_recorder != nullptr && !paused) current_recorder->begin(event);
  return nullptr;
}

void on_end(const at::RecordFunction& event, at::ObserverContext*) {
  if (current_recorder != nullptr && !paused) current_recorder->end(event);
}

/// A forked child (a DataLoader worker) inherits the thread's recorder but never closes its region: it would record
/// for ever.
void drop_recorder_in_child() { current_recorder = nullptr; }

void watch_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, drop_recorder_in_child);
  static_cast<void>(registered);
}

const at::RecordFunctionCallback& observer() {
  static const auto& callback = *new at::RecordFunctionCallback(at::RecordFunctionCallback(on_begin, on_end)
                                                                    .needsInputs(true)
                                                                    .needsOutputs(true)
                                                                    .scopes({at::RecordScope::FUNCTION}));
  return callback;
}

at::ArrayRef<c10::IValue> last(at::ArrayRef<c10::IValue> values, size_t count) {
  return values.slice(values.size() - count);
}

uint32_t version_of(const at::Tensor& tensor) {
  const auto& counter = tensor.unsafeGetTensorImpl()->version_counter();
  return counter.enabled() ? counter.current_version() : 0;
}

/// Calls `visit` for every defined tensor of the arguments, lists included.
template <typename Visit>
void for_each_tensor(at::ArrayRef<c10::IValue> values, const Visit& visit) {
  for (const c10::IValue& value : values) {
    if (value.isTensor()) {
      if (value.toTensor().defined()) visit(value.toTensor());
    } else if (value.isList()) {
      for (const c10::IValue& element : value.toListRef()) {
        if (element.isTensor() && element.toTensor().defined()) visit(element.toTensor());
      }
    }
  }
}

c10::DeviceType device_of(at::ArrayRef<c10::IValue> arguments) {
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor() && argument.toTensor().defined()) return argument.toTensor().device().type();
    if (argument.isDevice()) return argument.toDevice().type();
    if (argument.isTensorList() && !argument.toListRef().empty()) {
      const auto& first = argument.toListRef()[0].toTensor();
      if (first.defined()) return first.device().type();
    }
  }
  return c10::kCPU;
}

bool is_plain_backward() {
  return torch::autograd::get_current_graph_task_id() != -1 && !c10::GradMode::is_enabled();
}

}  // namespace

bool can_record() {
  if (!c10::GradMode::is_enabled() || c10::InferenceMode::is_enabled()) return false;
  if (!c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode)) return true;
  TORCH_WARN_ONCE("remat: a region inside a torch.func transform (grad, vmap, jvp) runs plainly: right, but nothing is "
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
  failure_ = nullptr;
  abandoned_ = false;
  prune_at_nodes_ = kFirstPruneNodes;
  prune_at_bytes_ = kFirstPruneBytes;
  held_bytes_ = 0;
  depth_ = 0;
  last_draw_ = kNone;
  clear_leaf();
  observer_ = at::addThreadLocalCallback(observer());
  current_recorder = this;
}

Recorder* Recorder::current() { return current_recorder; }

void Recorder::open_region(const policy::Policy& policy) {
  const std::lock_guard lock(recording_->mutex);
  const auto id = regions_.empty() ? tape::kOutermost : recording_->tape.open_region(regions_.back().id);
  regions_.push_back({id, policy});
}

void Recorder::close_region(size_t depth, size_t segments) {
  if (depth > regions_.size()) return;  // closed with a region around it
  const bool here = std::this_thread::get_id() == thread_;
  if (!here) abandoned_ = true;
  TORCH_CHECK(here, "remat: a region must be closed on the thread that opened it; nothing more is recorded there");
  const bool in_order = depth == regions_.size();
  const Region closing = regions_[depth - 1];
  regions_.erase(regions_.begin() + static_cast<ptrdiff_t>(depth - 1), regions_.end());
  if (in_order && !failure_) cut(closing, segments);
  if (regions_.empty()) stop();
  TORCH_CHECK(in_order, "remat: regions must be closed in the reverse order of opening: a region opened inside this one "
              "was still open (a generator that yields inside a region leaves it open in its caller). Both are closed now.");
}

void Recorder::cut(const Region& region, size_t segments) {
  if (segments == 1 || (segments == 0 && region.id != tape::kOutermost)) return;
  const std::lock_guard lock(recording_->mutex);
  auto& tape = recording_->tape;
  size_t nodes = 0;
  for (NodeId id = 0; id < tape.nodes(); ++id) nodes += tape.node(id).region == region.id ? 1 : 0;
  if (segments == 0 && nodes > kLargestLayer) segments = static_cast<size_t>(std::ceil(std::sqrt(nodes)));
  if (segments > 1) tape.cut(region.id, segments);
}

void Recorder::stop() {
  if (current_recorder != this) return;
  regions_.clear();
  at::removeCallback(observer_);
  silenced_ = false;
  current_recorder = nullptr;
  settle_pending();
  clear_leaf();
  memories_.stop();
  std::vector<std::unique_ptr<Held>> freed;
  const auto recording = std::exchange(recording_, nullptr);  // the last reference may go, after the lock
  const std::lock_guard lock(recording->mutex);
  recording->open = false;
  recording->prune({}, freed);
}

void Recorder::fail(std::exception_ptr error) {
  if (!failure_) failure_ = std::move(error);
}

// ---- What a call is ------------------------------------------------------------------------------------------------

void Recorder::begin(const at::RecordFunction& event) {
  ++depth_;
  if (leaf_ != Leaf::none) return;
  try {
    const Operator* op = Operator::of(event);
    at::ArrayRef<c10::IValue> arguments(event.inputs().data(), event.inputs().size());
    // Interpreters call with their whole stack: only its top is this operator's.
    if (op != nullptr && arguments.size() > op->arguments.size()) arguments = last(arguments, op->arguments.size());
    op_ = op;
    leaf_ = classify(event, op, arguments);
    if (leaf_ == Leaf::none) return;
    leaf_depth_ = depth_;
    exceptions_ = std::uncaught_exceptions();
    if (leaf_ == Leaf::recorded) begin_recorded(arguments);
    if (leaf_ == Leaf::opaque) begin_opaque(arguments);
    if (leaf_ == Leaf::recorded || (op_ != nullptr && op_->view)) silence_inner_calls();
  } catch (...) {
    fail(std::current_exception());
  }
}

void Recorder::end(const at::RecordFunction& event) {
  if (depth_ == 0) return;  // it began before the region was opened
  const bool ends_leaf = leaf_ != Leaf::none && depth_ == leaf_depth_;
  --depth_;
  if (!ends_leaf) return;
  try {
    if (!failure_ && leaf_ == Leaf::recorded) end_recorded(event);
    if (!failure_ && leaf_ == Leaf::opaque) end_opaque();
  } catch (...) {
    fail(std::current_exception());
  }
  settle_pending();
  clear_leaf();
  prune_if_grown();
}

/// Half of the cost of recording is the events of calls inside an operator, which belong to it and are ignored: none are
/// asked for while it runs. The event that is under way still ends here.
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
  compared_.clear();
  draw_ = kNone;
  recordable_ = true;
}

Recorder::Leaf Recorder::classify(const at::RecordFunction& /*event*/, const Operator* op,
                                  at::ArrayRef<c10::IValue> arguments) {
  if (failure_ || abandoned_ || is_plain_backward()) return Leaf::ignored;
  if (op == nullptr) return Leaf::opaque;
  if (is_transparent(*op, arguments)) return Leaf::none;
  if (op->view) return Leaf::ignored;
  return op->trust == Operator::Trust::aten ? Leaf::recorded : Leaf::opaque;
}

bool Recorder::is_transparent(const Operator& op, at::ArrayRef<c10::IValue> arguments) {
  const auto device = device_of(arguments);
  if (op.is_composite(device) || op.is_autocast(device)) return true;
  if (c10::impl::TorchDispatchModeTLS::any_modes_set() &&
      !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Python)) {
    return true;
  }
  bool wrapped = false;
  for_each_tensor(arguments, [&](const at::Tensor& tensor) { wrapped = wrapped || kind_of(tensor) == Kind::wrapper; });
  return wrapped;
}

// ---- Before an operator runs ---------------------------------------------------------------------------------------

void Recorder::begin_recorded(at::ArrayRef<c10::IValue> arguments) {
  const Pause pause;
  const std::lock_guard lock(recording_->mutex);
  const Operator& op = *op_;
  const bool trains = op.training == -2 || (op.training >= 0 && arguments[static_cast<size_t>(op.training)].toBool());
  call_.start(op);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto on_tensor = [&](const at::Tensor& tensor) { return read_argument(op.arguments[i], trains, tensor); };
    // One argument that cannot be recorded is enough to keep the results, but the others may still be written.
    if (!call_.add(arguments[i], on_tensor)) recordable_ = false;
  }
  if (op.unordered_on_cuda && device_of(arguments) == c10::kCUDA) {
    recordable_ = recordable_ && at::globalContext().deterministicAlgorithms();
  }
  if (op.seeded && recordable_) {
    bool readable = true;
    draw_ = observe_draw(arguments, readable);
    recordable_ = recordable_ && readable;
  }
  for (const Written& written : written_) protect(written);
}

bool Recorder::read_argument(const Operator::Argument& argument, bool trains, const at::Tensor& tensor) {
  if (kind_of(tensor) != Kind::plain) return false;
  const BufferId buffer = memories_.see(tensor);
  const bool writes = argument.written || (argument.statistic && trains);
  const bool statistic = argument.statistic && trains;
  Memory& memory = recording_->memories[buffer];
  // What was never wholly written is read as it is, whoever filled it.
  if (!writes && !recording_->tape.value(memory.current).defined) memories_.lose(buffer);
  const ValueId value = recording_->memories[buffer].current;
  const bool source = recording_->tape.value(value).producer == kNone && !statistic;
  reads_.push_back({buffer, value, source ? tensor : at::Tensor(), version_of(tensor)});
  if (writes) {
    const bool changes = argument.written && !argument.overwritten && c10::GradMode::is_enabled();
    written_.push_back({tensor, static_cast<uint32_t>(reads_.size() - 1), argument.overwritten, statistic,
                        changes ? spot_hash(tensor) : 0});
  }
  return true;
}

/// A write is about to change a buffer. Where an earlier node, or the operator itself through another argument, reads what
/// it holds and that came from outside, a replay needs it as it is now.
void Recorder::protect(const Written& written) {
  const Read& read = reads_[written.read];
  const auto reads_it = [&](const Read& other) { return &other != &read && other.value == read.value; };
  if (read.source.defined() && std::any_of(reads_.begin(), reads_.end(), reads_it)) hold_source(read);
  Held* held = recording_->find_held(read.value);
  if (held == nullptr || held->why == Held::Why::copy) return;
  if (held->why == Held::Why::policy && recording_->tape.value(read.value).producer != kNone) {
    recording_->held[read.value].reset();  // its node can run again
    return;
  }
  if (held->why == Held::Why::source && keep_readers(read.value)) return;
  held->storage = copy_of(written.tensor.storage());
  held->parameter.reset();
  held->seen.reset();
  held->why = Held::Why::copy;
}

/// Instead of a copy of a source, keeps what nodes computed from it, if that is alive and smaller: attention over a cache
/// makes less than the cache.
bool Recorder::keep_readers(ValueId source) {
  auto& tape = recording_->tape;
  int64_t bytes = 0;
  std::vector<std::pair<ValueId, c10::Storage>> results;
  for (NodeId id = 0; id < tape.nodes(); ++id) {
    const auto reads = tape.reads(id);
    if (std::find(reads.begin(), reads.end(), source) == reads.end()) continue;
    if (!tape.writes(id).empty()) return false;
    for (const ValueId result : tape.results(id)) {
      auto storage = recording_->original(result);
      bytes += tape.buffer_bytes(tape.value(result).buffer);
      if (!storage || bytes >= tape.buffer_bytes(tape.value(source).buffer)) return false;
      results.emplace_back(result, std::move(*storage));
    }
  }
  for (auto& [result, storage] : results) {
    Held kept;
    kept.storage = std::move(storage);
    recording_->hold(result, std::move(kept));
    tape.make_source(result);
  }
  recording_->held[source].reset();
  return true;
}

tape::DrawId Recorder::observe_draw(at::ArrayRef<c10::IValue> arguments, bool& readable) {
  at::Generator generator;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (op_->arguments[i].generator && arguments[i].isGenerator()) generator = arguments[i].toGenerator();
  }
  if (!generator.defined()) generator = at::globalContext().defaultGenerator(c10::Device(device_of(arguments)));
  auto& draws = recording_->draws;
  const Draw* last = last_draw_ == kNone ? nullptr : &draws[last_draw_];
  auto draw = observe(std::move(generator), last);
  readable = draw.has_value();
  if (!readable) return kNone;
  if (last == nullptr || !draw->state.is_same(last->state)) {
    draws.push_back(std::move(*draw));
    last_draw_ = static_cast<tape::DrawId>(draws.size() - 1);
  }
  return last_draw_;
}

void Recorder::begin_opaque(at::ArrayRef<c10::IValue> arguments) {
  const Pause pause;
  const std::lock_guard lock(recording_->mutex);
  for_each_tensor(arguments, [&](const at::Tensor& tensor) {
    if (kind_of(tensor) != Kind::plain || !memories_.knows(tensor)) return;
    memories_.see(tensor);
    compared_.push_back({tensor, spot_hash(tensor)});
  });
}

// ---- After an operator ran -----------------------------------------------------------------------------------------

void Recorder::end_recorded(const at::RecordFunction& event) {
  const Pause pause;
  const std::lock_guard lock(recording_->mutex);
  const auto& outputs = event.outputs();
  const bool threw = op_->returns > 0 ? outputs.empty() : std::uncaught_exceptions() > exceptions_;
  if (threw || op_->resizes) {
    forget_writes();
    return;
  }
  bool all_plain = true;
  const auto fresh = fresh_results(outputs, all_plain);
  if (fresh.empty() && written_.empty()) return;
  if (op_->undefined) {
    adopt_undefined(fresh);
    return;
  }
  if (recordable_ && all_plain && can_replay()) {
    add_node(fresh);
  } else {
    forget_writes();
  }
}

std::vector<at::Tensor> Recorder::fresh_results(const std::vector<c10::IValue>& outputs, bool& all_plain) const {
  std::vector<at::Tensor> fresh;
  at::ArrayRef<c10::IValue> results(outputs);
  if (results.size() > op_->returns) results = last(results, op_->returns);
  for_each_tensor(results, [&](const at::Tensor& tensor) {
    if (kind_of(tensor) != Kind::plain) {
      all_plain = false;
    } else if (!memories_.knows(tensor)) {
      const auto shares = [&](const at::Tensor& other) { return other.storage().is_alias_of(tensor.storage()); };
      if (std::none_of(fresh.begin(), fresh.end(), shares)) fresh.push_back(tensor);
    }
  });
  return fresh;
}

/// True iff every write can be repeated from values of the tape. What was made outside is never written again by a
/// replay, and of parameters no write is recorded.
bool Recorder::can_replay() const {
  return std::all_of(written_.begin(), written_.end(), [&](const Written& written) {
    if (written.statistic) return true;
    const Read& read = reads_[written.read];
    const auto& value = recording_->tape.value(read.value);
    if (recording_->memories[read.buffer].is_parameter()) return false;
    if (written.overwritten && covers_storage(written.tensor)) return true;
    return value.producer != kNone && value.defined;
  });
}

/// empty() makes a buffer, not a value: until all of it is written it holds whatever somebody puts there.
void Recorder::adopt_undefined(const std::vector<at::Tensor>& fresh) {
  for (const at::Tensor& result : fresh) {
    const BufferId buffer = memories_.adopt(result);
    memories_.lose(buffer);
    if (result.storage().nbytes() != 0) recording_->tape.set_undefined(recording_->memories[buffer].current);
  }
}

void Recorder::add_node(const std::vector<at::Tensor>& fresh) {
  std::vector<ValueId> reads;
  reads.reserve(reads_.size());
  for (const Read& read : reads_) reads.push_back(read.value);
  std::vector<BufferId> buffers;
  for (const Written& written : written_) {
    const bool overwrites = written.overwritten && covers_storage(written.tensor);
    if (overwrites || written.statistic) reads[written.read] = kNone;
    if (written.statistic) continue;
    call_.add_write({written.read, overwrites});
    buffers.push_back(reads_[written.read].buffer);
  }
  for (const at::Tensor& result : fresh) {
    call_.add_result(result);
    buffers.push_back(memories_.adopt(result));
  }
  const NodeId node = recording_->tape.add_node(call_.finish(), regions_.back().id, draw_, reads, buffers);
  counters().ops_recorded.fetch_add(1, std::memory_order_relaxed);
  hold_sources(node);
  settle_written(node);
  settle_results(node, fresh);
  apply_policy(node);
}

void Recorder::hold_sources(NodeId node) {
  const auto reads = recording_->tape.reads(node);
  for (size_t i = 0; i < reads.size(); ++i) {
    if (reads[i] != kNone && reads_[i].source.defined()) hold_source(reads_[i]);
  }
}

void Recorder::hold_source(const Read& read) {
  if (recording_->find_held(read.value) != nullptr) return;
  Held held;
  const Memory& memory = recording_->memories[read.buffer];
  const auto& storage = read.source.storage();
  if (memory.is_parameter()) {
    const auto parameter = memory.parameter.lock();
    held.parameter = at::Tensor(parameter);
  } else if (storage.nbytes() <= kSmallSource && storage.device_type() == c10::kCPU) {
    held.why = Held::Why::copy;
    held.storage = copy_of(storage);
  } else {
    held.storage = storage;
    const uint64_t hash = spot_hash(read.source);
    if (hash != 0) held.seen = std::make_unique<Memory::Birth>(Memory::Birth{read.value, geometry_of(read.source), hash});
  }
  held_bytes_ += held.storage ? held.storage.nbytes() : 0;
  recording_->hold(read.value, std::move(held));
}

void Recorder::settle_written(NodeId node) {
  const auto values = recording_->tape.writes(node);
  size_t next = 0;
  for (const Written& written : written_) {
    const BufferId buffer = reads_[written.read].buffer;
    if (written.statistic) {
      memories_.lose(buffer);
      memories_.refresh(buffer);
    } else {
      memories_.settle(buffer, values[next++]);
    }
  }
}

void Recorder::settle_results(NodeId node, const std::vector<at::Tensor>& fresh) {
  const auto results = recording_->tape.results(node);
  for (size_t i = 0; i < results.size(); ++i) {
    Memory& memory = recording_->memories[recording_->tape.value(results[i]).buffer];
    memory.current = results[i];
    if (op_->factory) {
      memory.birth = std::make_unique<Memory::Birth>(
          Memory::Birth{results[i], geometry_of(fresh[i]), spot_hash(fresh[i])});
    }
  }
}

void Recorder::apply_policy(NodeId node) {
  const tape::Call& call = *recording_->tape.node(node).call;
  // A cast of a parameter lives in autocast's cache anyway, and the parameter may be updated before backward.
  const bool casts_parameter = op_->base == std::string_view("aten::_to_copy") && !reads_.empty() &&
                               recording_->memories[reads_[0].buffer].is_parameter();
  const auto consider = [&](ValueId value) {
    const BufferId buffer = recording_->tape.value(value).buffer;
    const policy::Facts facts{call.op, recording_->tape.buffer_bytes(buffer)};
    if (!casts_parameter && regions_.back().policy(facts) == policy::Decision::recompute) return;
    auto storage = recording_->memories[buffer].storage.lock();
    if (!storage) return;
    Held held;
    held.why = Held::Why::policy;
    held.storage = c10::Storage(std::move(storage));
    recording_->hold(value, std::move(held));
  };
  for (const ValueId value : recording_->tape.writes(node)) consider(value);
  for (const ValueId value : recording_->tape.results(node)) consider(value);
}

/// The call made no node: what it wrote holds something the tape cannot make again.
void Recorder::forget_writes() {
  for (const Written& written : written_) {
    const Read& read = reads_[written.read];
    const bool still_undefined = !recording_->tape.value(read.value).defined;
    if (!still_undefined) memories_.lose(read.buffer);
    memories_.refresh(read.buffer);
  }
}

void Recorder::end_opaque() {
  const Pause pause;
  const std::lock_guard lock(recording_->mutex);
  const bool distrusted = op_ != nullptr && op_->trust == Operator::Trust::distrust;
  for (const Compared& compared : compared_) {
    const BufferId buffer = memories_.see(compared.tensor);
    if (distrusted || spot_hash(compared.tensor) != compared.before) {
      memories_.lose(buffer);
      memories_.refresh(buffer);
    }
  }
}

void Recorder::prune_if_grown() {
  if (recording_->tape.nodes() < prune_at_nodes_ && held_bytes_ < prune_at_bytes_) return;
  std::vector<std::unique_ptr<Held>> freed;
  const std::lock_guard lock(recording_->mutex);
  recording_->prune(memories_.live_values(), freed);
  last_draw_ = kNone;
  memories_.rebuild();
  held_bytes_ = 0;
  for (const auto& held : recording_->held) held_bytes_ += held && held->storage ? held->storage.nbytes() : 0;
  prune_at_nodes_ = std::max(kFirstPruneNodes, 2 * recording_->tape.nodes());
  prune_at_bytes_ = std::max(kFirstPruneBytes, 2 * held_bytes_);
}

// ---- Saved tensors -------------------------------------------------------------------------------------------------

void Recorder::pack(Packed& packed, const at::Tensor& tensor) {
  if (leaf_ != Leaf::none) {
    pending_.push_back({&packed, tensor, version_of(tensor)});
    return;
  }
  packed.settle(locate(tensor));
}

void Recorder::withdraw(const Packed& packed) {
  std::erase_if(pending_, [&](const Pending& pending) { return pending.packed == &packed; });
}

void Recorder::settle_pending() {
  while (!pending_.empty()) {
    const Pending pending = std::move(pending_.back());
    pending_.pop_back();
    Location location;
    try {
      location = locate(pending.tensor, pending.version);
    } catch (...) {
      fail(std::current_exception());
      location.reason = Reason::suspended;
    }
    pending.packed->settle(std::move(location));
  }
}

Location Recorder::locate(const at::Tensor& tensor) {
  if (failure_ || abandoned_) return Location::kept(Reason::suspended);
  if (kind_of(tensor) != Kind::plain) return Location::kept(Reason::opaque);
  const Pause pause;
  const std::lock_guard lock(recording_->mutex);
  if (parameter_of(tensor) != nullptr) return Location::kept(Reason::parameter);
  if (!memories_.knows(tensor)) return pre_image(tensor);
  const BufferId buffer = memories_.see(tensor);
  return at_value(tensor, recording_->memories[buffer].current);
}

/// For a tensor that was saved while an operator that writes it ran: the value is the one before the write if the count
/// had not moved when it was saved but has moved since.
Location Recorder::locate(const at::Tensor& tensor, uint32_t version) {
  const Written* written = failure_ || kind_of(tensor) != Kind::plain ? nullptr : writer_of(tensor);
  if (written == nullptr) return locate(tensor);
  const Read& read = reads_[written->read];
  const bool saved_before = version == read.version && version_of(tensor) != read.version;
  if (!saved_before) return locate(tensor);
  const std::lock_guard lock(recording_->mutex);
  // Its elements are gone: the hash is of what the operator found.
  Location location = at_value(tensor, read.value);
  location.spot = geometry_of(tensor) == geometry_of(written->tensor) ? written->before : 0;
  return location;
}

const Recorder::Written* Recorder::writer_of(const at::Tensor& tensor) const {
  const auto writes_it = [&](const Written& written) {
    return written.tensor.storage().is_alias_of(tensor.storage());
  };
  const auto found = std::find_if(written_.begin(), written_.end(), writes_it);
  return found == written_.end() ? nullptr : &*found;
}

Location Recorder::at_value(const at::Tensor& tensor, ValueId value) {
  const auto& facts = recording_->tape.value(value);
  if (!facts.defined) return Location::kept(Reason::unknown);
  if (facts.producer == kNone) return Location::kept(Reason::input);
  const Held* held = recording_->find_held(value);
  if (held != nullptr && held->why == Held::Why::policy) return Location::kept(Reason::policy);
  Location location;
  location.reason = Reason::recomputed;
  location.geometry = geometry_of(tensor);
  location.saved = recording_->tape.add_saved(value, regions_.back().id, location.geometry.bytes());
  location.state = &recording_->saved.emplace_back();
  if (is_repeatable(value)) location.spot = spot_hash(tensor);
  return location;
}

bool Recorder::is_repeatable(ValueId value) const {
  const NodeId producer = recording_->tape.value(value).producer;
  const uint32_t unrepeatable =
      static_cast<const Call&>(*recording_->tape.node(producer).call).target->unrepeatable_results;
  if (unrepeatable == 0) return true;
  const auto results = recording_->tape.results(producer);
  const auto index = std::find(results.begin(), results.end(), value) - results.begin();
  return (unrepeatable >> static_cast<uint32_t>(index) & 1U) == 0;
}

/// In-place operators under grad save a private clone of what they are about to change. That is the value before the
/// write, and can be recomputed as such.
Location Recorder::pre_image(const at::Tensor& tensor) {
  for (const Written& written : written_) {
    if (written.before == 0 || !(geometry_of(tensor) == geometry_of(written.tensor))) continue;
    const uint64_t hash = spot_hash(tensor);
    if (hash != written.before) continue;
    Location location = at_value(tensor, reads_[written.read].value);
    location.spot = hash;
    return location;
  }
  return Location::kept(leaf_ == Leaf::none ? Reason::input : Reason::unknown);
}

}  // namespace remat::record
