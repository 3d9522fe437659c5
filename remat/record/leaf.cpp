#include <algorithm>
#include <string_view>

#include "remat/memory/ledger.h"
#include "remat/memory/memory.h"
#include "remat/record/arguments.h"
#include "remat/record/recorder.h"
#include "remat/record/spot.h"

// One operator, from before it runs to the node that is made of it.

namespace remat::record {

using tape::BufferId;
using tape::kNone;
using tape::NodeId;
using tape::ValueId;

namespace {

Profile::Bytes counted_bytes() {
  const auto window_peak = static_cast<int64_t>(memory::ledger().take_window_peak());
  return {static_cast<int64_t>(memory::live_bytes()), window_peak};
}

/// Undefined where the device has none that torch knows.
at::Generator default_generator(c10::DeviceType device) {
  try {
    return at::globalContext().defaultGenerator(c10::Device(device));
  } catch (const c10::Error&) {
    return {};
  }
}

}  // namespace

// ---- Before an operator runs
// ---------------------------------------------------------------------------------------

void Recorder::begin_recorded(at::ArrayRef<c10::IValue> arguments) {
  const Pause pause;
  const auto lock = recording_->lock();
  const Operator& op = *op_;
  const bool trains = op.training == -2 ||
                      (op.training >= 0 && arguments[static_cast<size_t>(op.training)].toBool());
  const auto device = device_of(arguments);
  call_.start(op, device);
  if (recording_->verification) recording_->verification->begin_operator();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto on_tensor = [&](const at::Tensor& tensor) {
      return read_argument(op.arguments[i], trains, tensor);
    };
    // One argument that cannot be recorded is enough to keep the results, but the others may still
    // be written.
    if (!call_.add(arguments[i], on_tensor)) recordable_ = false;
  }
  recordable_ = recordable_ && !op.unsteady;
  if (op.unordered_on_cuda && device == c10::kCUDA) {
    recordable_ = recordable_ && at::globalContext().deterministicAlgorithms();
  }
  if (op.seeded && recordable_) {
    bool readable = true;
    draw_ = observe_draw(arguments, readable);
    recordable_ = recordable_ && readable;
  }
  for (Written& written : written_) {
    written.overwritten = written.overwritten && (op.pointwise || !is_read_too(written));
    protect(written);
    protect_overlapped(written);
  }
  if (!written_.empty()) note_beside();
  if (!recording_->profile) return;
  look_what_is_there();
  recording_->profile->operator_begins(counted_bytes());
}

/// The program may hold what no operator reads any more. Policies' values are not looked at: in a
/// step that keeps, they are many, and a plan knows of them.
void Recorder::look_what_is_there() {
  auto& profile = *recording_->profile;
  std::erase_if(profile.there, [&](BufferId buffer) {
    const Memory& memory = recording_->memories[buffer];
    if (memory.storage.use_count() == 0 || is_kept_by_policy(memory.current)) return true;
    profile.found(buffer, recording_->tape.nodes());
    return false;
  });
}

bool Recorder::read_argument(const Operator::Argument& argument, bool trains,
                             const at::Tensor& tensor) {
  if (kind_of(tensor) != Kind::plain) return false;
  const BufferId buffer = memories_.see(tensor);
  const bool writes = argument.written || (argument.statistic && trains);
  const bool statistic = argument.statistic && trains;
  Memory& memory = recording_->memories[buffer];
  // Training updates it, and its version counter does not move.
  if (argument.statistic && memory.met) memory.exposed = true;
  // What was never wholly written is read as it is, whoever filled it.
  if (!writes && !recording_->tape.value(memory.current).defined) memories_.lose(buffer);
  const ValueId value = recording_->memories[buffer].current;
  const bool source = recording_->tape.value(value).producer == kNone && !statistic;
  reads_.push_back({buffer, value, source ? tensor : at::Tensor(), version_of(tensor)});
  if (recording_->verification && !argument.overwritten && !statistic)
    recording_->verification->note_read(value, tensor.storage(), op_->name);
  if (writes) {
    const auto read = static_cast<uint32_t>(reads_.size() - 1);
    written_.push_back({tensor, read, argument.overwritten, statistic});
  }
  return !memories_.is_displaced(buffer, tensor);
}

/// True iff another argument shows the buffer that is written, as in `torch.mm(a, b, out=a)`.
/// Unless the operator goes element by element, what it reads then depends on what it wrote before:
/// a replay has to see one storage too.
bool Recorder::is_read_too(const Written& written) const {
  const Read& read = reads_[written.read];
  return std::any_of(reads_.begin(), reads_.end(), [&](const Read& other) {
    return &other != &read && other.buffer == read.buffer;
  });
}

/// A write is about to change a buffer. Where an earlier node, or the operator itself through
/// another argument, reads what it holds and that came from outside, a replay needs it as it is
/// now.
void Recorder::protect(Written& written) {
  const Read& read = reads_[written.read];
  const auto reads_it = [&](const Read& other) {
    return &other != &read && other.value == read.value;
  };
  if (read.source.defined() && std::any_of(reads_.begin(), reads_.end(), reads_it))
    hold_source(read);
  written.kept = is_kept_by_policy(read.value) && !recording_->whole;
  written.parameter = protect(read.value, written.tensor.storage(), written.overwritten);
}

/// Copies what is held of the value in a storage that is about to be written, where it cannot be
/// made again. Returns what was held of a parameter.
std::unique_ptr<Held> Recorder::protect(ValueId value, const c10::Storage& storage,
                                        bool overwritten) {
  Held* held = recording_->find_held(value);
  if (held == nullptr || held->why == Held::Why::copy) return nullptr;
  if (held->why == Held::Why::policy && recording_->tape.value(value).producer != kNone) {
    recording_->held[value].reset();  // its node can run again
    return nullptr;
  }
  const at::Tensor parameter = held->parameter;
  if (parameter.defined() && overwritten) {
    // It may be filled again after it was freed: then this is not what was read.
    const bool as_read = has_bytes(parameter) && spot_hash(parameter) == held->seen->hash;
    if (!as_read) return nullptr;
  } else if (held->why == Held::Why::source && keep_readers(value)) {
    return nullptr;
  }
  std::unique_ptr<Held> before;
  auto copy = parameter.defined() ? copy_as(parameter, held->seen->geometry, held->seen->address)
                                  : copy_of(storage);
  if (parameter.defined()) before = std::make_unique<Held>(std::move(*held));
  held->storage = std::move(copy);
  held->shown = {held->storage.nbytes() - own_bytes(held->storage), held->storage.nbytes()};
  held->parameter.reset();
  held->seen.reset();
  held->why = Held::Why::copy;
  return before;
}

void Recorder::protect_overlapped(const Written& written) {
  const Read& read = reads_[written.read];
  for (const BufferId buffer : memories_.overlapped(read.buffer, written.tensor)) {
    const ValueId value = recording_->memories[buffer].current;
    auto before = protect(value, written.tensor.storage(), written.overwritten);
    overlapped_.push_back({buffer, value, written.overwritten, std::move(before)});
  }
}

/// Instead of a copy of a source, keeps what nodes computed from it, if that is alive and smaller:
/// attention over a cache makes less than the cache.
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
  if (results.empty()) return false;  // only the operator that is about to run reads it
  for (auto& [result, storage] : results) {
    Held kept;
    kept.may_be_given = true;
    kept.storage = std::move(storage);
    kept.shown = {0, kept.storage.nbytes()};
    recording_->hold(result, std::move(kept));
    tape.make_source(result);
  }
  recording_->held[source].reset();
  return true;
}

/// An operator of a custom Function or of a plain backward pass is no node, but what it writes may
/// have been read by one.
void Recorder::protect_from_unrecorded(const Operator& op, at::ArrayRef<c10::IValue> arguments) {
  const Pause pause;
  const auto lock = recording_->lock();
  for (size_t i = 0; i < std::min(arguments.size(), op.arguments.size()); ++i) {
    if (!op.arguments[i].written) continue;
    for_each_tensor(arguments.slice(i, 1), [&](const at::Tensor& tensor) {
      if (kind_of(tensor) != Kind::plain || !memories_.knows(tensor)) return;
      const BufferId buffer = memories_.see(tensor);
      auto buffers = memories_.overlapped(buffer, tensor);
      buffers.push_back(buffer);
      for (const BufferId written : buffers)
        protect(recording_->memories[written].current, tensor.storage(), false);
    });
  }
}

tape::DrawId Recorder::observe_draw(at::ArrayRef<c10::IValue> arguments, bool& readable) {
  at::Generator generator;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (op_->arguments[i].generator && arguments[i].isGenerator())
      generator = arguments[i].toGenerator();
  }
  if (!generator.defined()) generator = default_generator(device_of(arguments));
  readable = generator.defined();
  if (!readable) return kNone;
  auto draw = draw_log_.observe(std::move(generator));
  readable = draw.has_value();
  if (!readable) return kNone;
  auto& draws = recording_->draws;
  if (last_draw_ == kNone || !(*draw == draws[last_draw_])) {
    draws.push_back(std::move(*draw));
    last_draw_ = static_cast<tape::DrawId>(draws.size() - 1);
  }
  return last_draw_;
}

void Recorder::begin_opaque(at::ArrayRef<c10::IValue> arguments) {
  const Pause pause;
  const auto lock = recording_->lock();
  for_each_tensor(arguments, [&](const at::Tensor& tensor) {
    if (kind_of(tensor) != Kind::plain || !memories_.knows(tensor)) return;
    const ValueId value = recording_->memories[memories_.see(tensor)].current;
    compared_.push_back({tensor, hash_for_comparison(tensor), value, copy_of_source(value)});
  });
}

/// Samples where the arguments count as written in any case, and equal ones tell only a parameter
/// that was gathered again; else all bytes.
uint64_t Recorder::hash_for_comparison(const at::Tensor& tensor) const {
  const bool distrusted = op_ != nullptr && op_->trust == Operator::Trust::distrust;
  return distrusted ? spot_hash(tensor) : span_hash(tensor);
}

/// Nobody can say whether custom code will change what an earlier node read and cannot be made
/// again: where it is small it is copied in case it does.
std::unique_ptr<Held> Recorder::copy_of_source(ValueId value) const {
  const Held* held = recording_->find_held(value);
  if (held == nullptr || held->why != Held::Why::source || !is_small(*held)) return nullptr;
  if (!held->parameter.defined())
    return held_copy(copy_of(held->storage), {0, held->storage.nbytes()});
  const auto& seen = *held->seen;
  const bool as_read = has_bytes(held->parameter) && spot_hash(held->parameter) == seen.hash;
  if (!as_read) return nullptr;
  return held_copy(copy_as(held->parameter, seen.geometry, seen.address), span_of(seen.geometry));
}

// ---- After an operator ran
// -----------------------------------------------------------------------------------------

void Recorder::end_recorded(const at::RecordFunction& event) {
  if (recording_->profile) recording_->profile->operator_ends(counted_bytes());
  const Pause pause;
  const NodeId node = record(event);
  if (!modes_.empty()) expect_counts();
  if (node != kNone) apply_policy(node);
}

/// In a dispatch mode the operator runs below the part of autograd that counts its writes, which it
/// does when the mode has returned.
void Recorder::expect_counts() {
  const auto lock = recording_->lock();
  for (const Written& written : written_) {
    recording_->memories[reads_[written.read].buffer].count_is_due = true;
    counted_later_.push_back(written.tensor);
  }
}

/// The call has ended and with it all counting of what it wrote.
void Recorder::leave_mode() {
  modes_.pop_back();
  if (!modes_.empty()) return;
  const auto lock = recording_->lock();
  for (const at::Tensor& tensor : std::exchange(counted_later_, {})) {
    if (memories_.knows(tensor)) memories_.count_is_done(tensor);
  }
}

/// The node that is made of the call; kNone where none is.
NodeId Recorder::record(const at::RecordFunction& event) {
  const auto lock = recording_->lock();
  // An operator written in Python may itself have asked for numpy's view of an argument.
  if (op_->foreign) {
    for (const Read& read : reads_) memories_.note_resizable(read.buffer);
  }
  forget_overlapped();
  forget_beside();
  const auto& outputs = event.outputs();
  const bool threw = op_->returns > 0 ? outputs.empty() : std::uncaught_exceptions() > exceptions_;
  if (threw || op_->resizes) {
    forget_writes();
    return kNone;
  }
  bool all_plain = true;
  const auto fresh = fresh_results(outputs, all_plain);
  if (fresh.empty() && written_.empty()) return kNone;
  if (op_->undefined) {
    adopt_undefined(fresh);
    return kNone;
  }
  if (recordable_ && all_plain && can_replay()) return add_node(fresh);
  forget_writes();
  return kNone;
}

Recorder::Tensors Recorder::fresh_results(const std::vector<c10::IValue>& outputs,
                                          bool& all_plain) const {
  Tensors fresh;
  at::ArrayRef<c10::IValue> results(outputs);
  if (results.size() > op_->returns) results = last(results, op_->returns);
  for_each_tensor(results, [&](const at::Tensor& tensor) {
    if (kind_of(tensor) != Kind::plain) {
      all_plain = false;
    } else if (!memories_.knows(tensor)) {
      const auto shares = [&](const at::Tensor& other) {
        return other.storage().is_alias_of(tensor.storage());
      };
      if (std::none_of(fresh.begin(), fresh.end(), shares)) fresh.push_back(tensor);
    }
  });
  return fresh;
}

/// True iff every write can be repeated from values of the tape. What was made outside is never
/// written again by a replay, and of parameters no write is recorded.
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

/// empty() makes a buffer, not a value: until all of it is written it holds whatever somebody puts
/// there.
void Recorder::adopt_undefined(const Tensors& fresh) {
  for (const at::Tensor& result : fresh) {
    const BufferId buffer = memories_.adopt(result);
    memories_.lose(buffer);
    if (result.storage().nbytes() != 0)
      recording_->tape.set_undefined(recording_->memories[buffer].current);
  }
}

NodeId Recorder::add_node(const Tensors& fresh) {
  c10::SmallVector<ValueId, 8> reads;
  for (const Read& read : reads_) reads.push_back(read.value);
  c10::SmallVector<BufferId, 8> buffers;
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
    if (recording_->profile) recording_->profile->there.push_back(buffers.back());
  }
  const NodeId node =
      recording_->tape.add_node(call_.finish(), regions_.back().id, draw_, reads, buffers);
  if (recording_->profile) recording_->profile->node_made();
  counters().ops_recorded.fetch_add(1, std::memory_order_relaxed);
  hold_sources(node);
  settle_written(node);
  settle_results(node, fresh);
  if (recording_->verification) note_made(node, fresh);
  return node;
}

void Recorder::hold_sources(NodeId node) {
  const auto reads = recording_->tape.reads(node);
  for (size_t i = 0; i < reads.size(); ++i) {
    if (reads[i] != kNone && reads_[i].source.defined()) hold_source(reads_[i]);
  }
}

/// Small ones are copied: in plain training they may change at once. When the region closes, or
/// autograd saves them, those that may not are held as they are instead.
void Recorder::hold_source(const Read& read) {
  const auto& storage = read.source.storage();
  const bool verified = recording_->verification != nullptr;
  const Span shown = verified ? Span{0, storage.nbytes()} : span_of(read.source);
  const bool with_grad = c10::GradMode::is_enabled();
  if (Held* held = recording_->find_held(read.value)) {
    held->read_with_grad = held->read_with_grad || with_grad;
    return widen(*held, shown, storage);
  }
  Held held;
  held.read_with_grad = with_grad;
  const Memory& memory = recording_->memories[read.buffer];
  const auto parameter = memory.is_parameter() ? at::Tensor(memory.parameter.lock()) : at::Tensor();
  held.shown = shown;
  if (!parameter.defined() && is_small(storage) && !memory.is_saved(read.value)) {
    held.why = Held::Why::copy;
    held.original = c10::weak_intrusive_ptr<c10::StorageImpl>(storage.getWeakStorageImpl());
    held.storage = shared_copies_.copy_of(storage, shown);
  } else if (parameter.defined() || !is_small(storage)) {
    const at::Tensor& seen = parameter.defined() ? parameter : read.source;
    held.parameter = parameter;
    if (!parameter.defined()) held.storage = storage;
    held.seen = Held::Seen{geometry_of(seen), spot_hash(seen),
                           reinterpret_cast<uintptr_t>(storage.data()), version_of(seen)};
  } else {
    held.storage = storage;
  }
  if (recording_->hooked && !held.seen) held.seen = Held::Seen{geometry_of(read.source), 0, 0, 0};
  held_bytes_ += held.storage ? held.storage.nbytes() : 0;
  if (verified && parameter.defined())
    recording_->verification->note_parameter(read.value, parameter);
  if (verified) recording_->verification->note_source(read.value, read.source);
  if (memory.exposed && held.why == Held::Why::source && !parameter.defined())
    note_all_bytes(read.buffer, storage);
  recording_->hold(read.value, std::move(held));
}

/// Of a large source that is written through pointers no copy is held: another content is at least
/// noticed.
void Recorder::note_all_bytes(BufferId buffer, const c10::Storage& storage) {
  Memory& memory = recording_->memories[buffer];
  const uint64_t hash = whole_hash(*storage.unsafeGetStorageImpl());
  if (hash != 0)
    memory.birth = std::make_unique<Memory::Birth>(Memory::Birth{memory.current, hash});
}

/// Another operator reads other bytes of what is held. REQUIRES: they are as they were.
void Recorder::widen(Held& held, Span shown, const c10::Storage& storage) {
  if (held.shown.contains(shown)) return;
  held.shown.widen(shown);
  if (held.why == Held::Why::copy) held.storage = shared_copies_.copy_of(storage, held.shown);
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

void Recorder::settle_results(NodeId node, const Tensors& fresh) {
  const auto results = recording_->tape.results(node);
  for (size_t i = 0; i < results.size(); ++i) {
    Memory& memory = recording_->memories[recording_->tape.value(results[i]).buffer];
    memory.current = results[i];
    if (op_->factory) {
      const uint64_t hash = whole_hash(*fresh[i].storage().unsafeGetStorageImpl());
      memory.birth = std::make_unique<Memory::Birth>(Memory::Birth{results[i], hash});
    }
  }
}

void Recorder::note_made(NodeId node, const Tensors& fresh) {
  const std::string& op = recording_->tape.node(node).call->op;
  const auto writes = recording_->tape.writes(node);
  size_t next = 0;
  for (const Written& written : written_) {
    if (written.statistic) continue;
    recording_->verification->note_written(writes[next++], reads_[written.read].value,
                                           written.tensor, op);
  }
  const auto results = recording_->tape.results(node);
  for (size_t i = 0; i < results.size(); ++i) {
    if (is_repeatable(results[i])) recording_->verification->note_made(results[i], fresh[i], op);
  }
}

/// The call made no node: what it wrote holds something the tape cannot make again.
void Recorder::forget_writes() {
  for (Written& written : written_) forget_write(written);
}

void Recorder::forget_write(Written& written) {
  const Read& read = reads_[written.read];
  if (!recording_->tape.value(read.value).defined) {
    memories_.refresh(read.buffer);
    return;
  }
  if (!written.overwritten) {
    memories_.overwritten(read.buffer);
    return;
  }
  const Held* held = recording_->find_held(read.value);
  if (written.parameter) {
    memories_.refilled(read.buffer, written.tensor, written.parameter.get(), held);
  } else {
    memories_.refilled(read.buffer, written.tensor, held);
  }
  const bool same_again = recording_->memories[read.buffer].current == read.value;
  if (same_again && written.parameter) recording_->held[read.value] = std::move(written.parameter);
}

/// Tensors over other bytes of a storage may share the version counter of what is written: that it
/// moves is then no change of theirs.
void Recorder::note_beside() {
  for (const Written& written : written_) {
    for (const BufferId buffer : memories_.beside(reads_[written.read].buffer, written.tensor)) {
      if (recording_->memories[buffer].counters_hold()) beside_.push_back(buffer);
    }
  }
}

void Recorder::forget_beside() {
  for (const BufferId buffer : beside_) memories_.refresh(buffer);
}

/// What the operator wrote holds something else in every buffer that has the bytes, but for a
/// parameter that was filled with what it held: sharded training gathers it again.
void Recorder::forget_overlapped() {
  for (Overlapped& other : overlapped_) {
    const auto parameter = at::Tensor(recording_->memories[other.buffer].parameter.lock());
    if (!other.overwritten || !parameter.defined()) {
      memories_.overwritten(other.buffer);
      continue;
    }
    const Held* held = recording_->find_held(other.value);
    if (other.parameter) {
      memories_.refilled(other.buffer, parameter, other.parameter.get(), held);
    } else {
      memories_.refilled(other.buffer, parameter, held);
    }
    const bool same_again = recording_->memories[other.buffer].current == other.value;
    if (same_again && other.parameter) recording_->held[other.value] = std::move(other.parameter);
  }
}

void Recorder::end_opaque() {
  const Pause pause;
  const auto lock = recording_->lock();
  const bool distrusted = op_ != nullptr && op_->trust == Operator::Trust::distrust;
  const bool collective = op_ != nullptr && op_->name.starts_with("c10d::");
  for (Compared& compared : compared_) {
    const BufferId buffer = memories_.see(compared.tensor);
    const bool changed = hash_for_comparison(compared.tensor) != compared.before;
    if (changed && compared.copy) recording_->held[compared.value] = std::move(compared.copy);
    if (collective) {
      const ValueId before = recording_->memories[buffer].current;
      memories_.refilled(buffer, compared.tensor, recording_->find_held(before));
    } else if (distrusted || changed) {
      memories_.overwritten(buffer);
      for (const BufferId other : memories_.overlapped(buffer, compared.tensor))
        overlapped_.push_back({other, recording_->memories[other].current, distrusted, nullptr});
    }
  }
  forget_overlapped();
}

}  // namespace remat::record
