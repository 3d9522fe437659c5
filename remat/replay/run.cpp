#include "remat/replay/run.h"

#include <optional>

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "remat/record/call.h"
#include "remat/record/recorder.h"
#include "remat/record/stats.h"

namespace remat::replay {

using record::Call;
using record::Recording;
using tape::kNone;
using tape::NodeId;
using tape::ValueId;

namespace {

/// Everything above the kernels: a node is the call below autograd, and its arguments were cast and
/// unwrapped when it was recorded.
const c10::DispatchKeySet kAboveKernels =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                         c10::DispatchKey::PreDispatch, c10::DispatchKey::PythonDispatcher,
                         c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                         c10::DispatchKey::FuncTorchDynamicLayerBackMode,
                         c10::DispatchKey::Functionalize});

class Run {
 public:
  Run(Recording& recording, std::span<const NodeId> nodes, const std::vector<bool>& wanted,
      const std::function<c10::Storage(ValueId)>& sources)
      : recording_(recording),
        tape_(recording.tape),
        nodes_(nodes),
        wanted_(wanted),
        sources_(sources) {}

  Storages operator()() {
    count_uses();
    below_.emplace();
    for (const NodeId id : nodes_) execute(id);
    below_.reset();
    for (ValueId value = 0; value < storages_.size(); ++value) {
      if (!wanted_[value]) storages_[value] = c10::Storage();
    }
    return std::move(storages_);
  }

 private:
  void count_uses() {
    uses_.assign(tape_.values(), 0);
    storages_.resize(tape_.values());
    for (const NodeId id : nodes_) {
      for (const ValueId value : tape_.reads(id)) {
        if (value != kNone) ++uses_[value];
      }
    }
    for (ValueId value = 0; value < wanted_.size(); ++value) uses_[value] += wanted_[value] ? 1 : 0;
  }

  void execute(NodeId id) {
    const auto& call = static_cast<const Call&>(*tape_.node(id).call);
    gather_absent(tape_.reads(id));
    ask_hooks(tape_.reads(id));
    auto storages = operands(id, call);
    std::vector<at::Tensor> reads;
    reads.reserve(storages.size());
    for (size_t i = 0; i < storages.size(); ++i)
      reads.push_back(record::view_over(storages[i], call.reads[i]));
    below_->ambient.switch_to(*call.ambient);
    auto stack = invoke(id, call, reads);
    reads.clear();
    bind_writes(id, call, storages);
    bind_results(id, call, stack, std::move(storages));
    release_reads(id);
    record::counters().ops_replayed.fetch_add(1, std::memory_order_relaxed);
  }

  std::vector<c10::Storage> operands(NodeId id, const Call& call) {
    const auto values = tape_.reads(id);
    std::vector<c10::Storage> storages;
    storages.reserve(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      storages.push_back(values[i] == kNone
                             ? record::zeros(call.reads[i].reach(), call.reads[i].device)
                             : storage_of(values[i]));
    }
    for (const tape::Write& write : call.writes) {
      if (!write.overwrites) make_private(values, write.read, storages);
    }
    return storages;
  }

  const c10::Storage& storage_of(ValueId value) {
    if (storages_[value]) return storages_[value];
    storages_[value] = sources_(value);
    if (recording_.verification) recording_.verification->check_found(value, storages_[value]);
    return storages_[value];
  }

  /// Asks the user's hooks for what they took. They are code like any other.
  void ask_hooks(std::span<const ValueId> reads) {
    for (const ValueId value : reads) {
      if (value == kNone || storages_[value] || !recording_.is_packed(value)) continue;
      below_.reset();
      storage_of(value);
      below_.emplace();
    }
  }

  /// Brings back the parameters that a node is about to read and whose storage exists only around
  /// use.
  void gather_absent(std::span<const ValueId> reads) {
    const auto absent = [&](ValueId value) {
      return value != kNone && !storages_[value] && recording_.is_absent(value);
    };
    if (std::none_of(reads.begin(), reads.end(), absent)) return;
    below_.reset();
    let_go_of_gathered();
    for (const ValueId value : reads) {
      if (absent(value)) gathered_.emplace_back(value, recording_.gather(value));
    }
    below_.emplace();
  }

  /// Gathering one parameter often brings its layer's others, which go with it: so it is let go of
  /// when the next layer is gathered rather than at its own last use, and where the others lay is
  /// looked up again.
  void let_go_of_gathered() {
    std::erase_if(gathered_, [&](const auto& entry) { return uses_[entry.first] == 0; });
    for (ValueId value = 0; value < storages_.size(); ++value) {
      if (storages_[value] && recording_.is_parameter(value)) storages_[value] = c10::Storage();
    }
  }

  /// A node is about to write this argument. Where anyone else still wants the old value, it writes
  /// a copy. All arguments that show the value see the same storage, as they did in the forward
  /// pass.
  void make_private(std::span<const ValueId> values, uint32_t written,
                    std::vector<c10::Storage>& storages) {
    const ValueId value = values[written];
    const auto readers = std::count(values.begin(), values.end(), value);
    // `storages_` and this call's operands hold it; more references are a handle, the cache or the
    // original.
    const bool ours = uses_[value] == readers &&
                      storages[written].use_count() == static_cast<size_t>(readers) + 1;
    if (ours) return;
    const auto copy = record::copy_of(storages[written]);
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] == value) storages[i] = copy;
    }
  }

  torch::jit::Stack invoke(NodeId id, const Call& call, const std::vector<at::Tensor>& reads) {
    const tape::DrawId draw = tape_.node(id).draw;
    const bool takes_generator =
        std::find(call.slots.begin(), call.slots.end(), Call::Slot::generator) != call.slots.end();
    at::Generator generator;
    std::optional<record::DrawScope> scope;
    if (draw != kNone && takes_generator) generator = record::replica_of(recording_.draws[draw]);
    if (draw != kNone && !takes_generator) scope.emplace(recording_.draws[draw]);
    auto stack = call.stack(reads, generator);
    call.target->handle.callBoxed(stack);
    return stack;
  }

  void bind_writes(NodeId id, const Call& call, const std::vector<c10::Storage>& operands) {
    const auto values = tape_.writes(id);
    for (size_t i = 0; i < values.size(); ++i) bind(values[i], operands[call.writes[i].read]);
  }

  /// In-place operators return their argument, which is no new result; nor is a second view of one.
  void bind_results(NodeId id, const Call& call, const torch::jit::Stack& outputs,
                    std::vector<c10::Storage> known) {
    const auto values = tape_.results(id);
    size_t next = 0;
    const auto consider = [&](const at::Tensor& tensor) {
      if (next == values.size() || !tensor.defined()) return;
      const auto is_it = [&](const c10::Storage& storage) {
        return storage.is_alias_of(tensor.storage());
      };
      if (std::any_of(known.begin(), known.end(), is_it)) return;
      check(call, next, tensor);
      known.push_back(tensor.storage());
      bind(values[next++], tensor.storage());
    };
    for (const c10::IValue& output : outputs) {
      if (output.isTensor()) consider(output.toTensor());
      if (!output.isTensorList()) continue;
      for (const c10::IValue& element : output.toListRef()) consider(element.toTensor());
    }
    TORCH_CHECK(next == values.size(), "remat: ", call.op,
                " gave fewer results when it was recomputed than in the forward pass");
  }

  /// A wrong decision of the recorder (a leaf that was not one, an autocast missed) shows here
  /// first.
  static void check(const Call& call, size_t result, const at::Tensor& tensor) {
    const auto geometry = record::geometry_of(tensor);
    const bool same = geometry == call.results[result] &&
                      static_cast<int64_t>(tensor.storage().nbytes()) == call.allocated[result];
    TORCH_CHECK(same, "remat: ", call.op, " made ", tape::to_text(geometry),
                " when it was recomputed, and ", tape::to_text(call.results[result]),
                " in the forward pass. Keep its result with a policy, for example "
                "remat.keep_ops([\"",
                call.op, "\"]), and please report this.");
  }

  void bind(ValueId value, c10::Storage storage) {
    if (recording_.verification) recording_.verification->check_made(value, storage);
    if (uses_[value] > 0) storages_[value] = std::move(storage);
  }

  void release_reads(NodeId id) {
    for (const ValueId value : tape_.reads(id)) {
      if (value != kNone && --uses_[value] == 0) storages_[value] = c10::Storage();
    }
  }

  Recording& recording_;
  const tape::Tape& tape_;
  std::span<const NodeId> nodes_;
  const std::vector<bool>& wanted_;
  const std::function<c10::Storage(ValueId)>& sources_;
  std::vector<uint32_t>
      uses_;  ///< by value: nodes of this run that have yet to read it, and one where it is wanted
  Storages storages_;

  const record::Recorder::Pause pause_;
  std::vector<std::pair<ValueId, std::shared_ptr<void>>> gathered_;
  /// What nodes run in. A gather hook is code like any other and runs outside of it.
  struct Below {
    record::AmbientScope ambient;
    const c10::impl::ExcludeDispatchKeyGuard keys{kAboveKernels};
  };
  std::optional<Below> below_;
};

}  // namespace

Storages run(Recording& recording, std::span<const NodeId> nodes, const std::vector<bool>& wanted,
             const std::function<c10::Storage(ValueId)>& sources) {
  return Run(recording, nodes, wanted, sources)();
}

}  // namespace remat::replay
