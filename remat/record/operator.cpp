#include "remat/record/operator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <ATen/autocast_mode.h>
#include <c10/util/flat_hash_map.h>

#include "remat/record/fork.h"

namespace remat::record {

namespace {

template <size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The corrections: what schemas and tags of aten do not say. Found by sweeping every differentiable
// operator and comparing arguments before and after.

constexpr std::array<std::string_view, 6> kUndefined = {
    "aten::empty",     "aten::empty_like",        "aten::empty_strided",
    "aten::new_empty", "aten::new_empty_strided", "aten::empty_permuted"};

/// Written by users through numpy, DLPack or their own kernels right after creation.
constexpr std::array<std::string_view, 27> kFactories = {
    "aten::zeros",         "aten::zeros_like", "aten::new_zeros",    "aten::ones",
    "aten::ones_like",     "aten::new_ones",   "aten::full",         "aten::full_like",
    "aten::new_full",      "aten::clone",      "aten::arange",       "aten::eye",
    "aten::scalar_tensor", "aten::linspace",   "aten::logspace",     "aten::rand",
    "aten::rand_like",     "aten::randn",      "aten::randn_like",   "aten::randint",
    "aten::randint_like",  "aten::randperm",   "aten::tril_indices", "aten::triu_indices",
    "aten::bernoulli",     "aten::normal",     "aten::_to_copy"};

/// In-place operators that write every element and read none first.
constexpr std::array<std::string_view, 13> kOverwriting = {
    "aten::copy_",         "aten::fill_",       "aten::zero_",        "aten::normal_",
    "aten::uniform_",      "aten::random_",     "aten::exponential_", "aten::cauchy_",
    "aten::geometric_",    "aten::log_normal_", "aten::bernoulli_",   "aten::_foreach_copy_",
    "aten::_foreach_zero_"};

constexpr std::array<std::string_view, 4> kResizing = {"aten::resize_", "aten::resize_as_",
                                                       "aten::set_", "aten::_resize_output_"};

/// Called in-place, but only the tensor's geometry changes.
constexpr std::array<std::string_view, 9> kReshaping = {
    "aten::t_",         "aten::transpose_",  "aten::squeeze_",
    "aten::unsqueeze_", "aten::as_strided_", "aten::swapaxes_",
    "aten::swapdims_",  "aten::detach_",     "aten::rename_"};

/// Their schema calls the running statistics inputs (or says that they are always written);
/// training decides.
constexpr std::array<std::string_view, 7> kNorms = {
    "aten::native_batch_norm",       "aten::cudnn_batch_norm",
    "aten::miopen_batch_norm",       "aten::_native_batch_norm_legit",
    "aten::_batch_norm_with_update", "aten::batch_norm_gather_stats_with_counts",
    "aten::_batch_norm_impl_index"};

/// Results of which some bytes are whatever the memory held, by operator and index. Backward never
/// reads those bytes.
constexpr std::array<std::pair<std::string_view, unsigned>, 2> kUnrepeatable = {{
    {"aten::mkldnn_rnn_layer", 3},  // oneDNN's workspace
    {"aten::_ctc_loss", 1},         // log_alpha behind the end of shorter targets
}};

/// Add up in an order that differs from run to run on CUDA, unless deterministic algorithms are on:
/// those of torch.use_deterministic_algorithms that forward passes call.
constexpr std::array<std::string_view, 19> kUnorderedOnCuda = {
    "aten::index_add",        "aten::index_add_",  "aten::index_put",    "aten::index_put_",
    "aten::_index_put_impl_", "aten::scatter_add", "aten::scatter_add_", "aten::scatter_reduce",
    "aten::scatter_reduce_",  "aten::scatter",     "aten::scatter_",     "aten::index_reduce",
    "aten::index_reduce_",    "aten::index_copy",  "aten::put_",         "aten::histc",
    "aten::bincount",         "aten::cumsum",      "aten::median"};

/// LAPACK's rank-revealing factorization: equal matrices give other bits in one call of ten.
constexpr std::array<std::string_view, 1> kUnsteady = {"aten::linalg_lstsq"};

constexpr std::array<std::string_view, 6> kDistrusted = {
    "c10d", "_c10d_functional", "fsdp", "symm_mem", "fbgemm", "_c10d_functional_autograd"};

std::string_view name_space(std::string_view name) { return name.substr(0, name.find("::")); }

Operator::Trust trust_in(std::string_view name) {
  const auto space = name_space(name);
  if (space == "aten") return Operator::Trust::aten;
  return contains(kDistrusted, space) ? Operator::Trust::distrust : Operator::Trust::kept;
}

bool returns_only_views(const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  const auto is_view = [](const c10::Argument& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  };
  return !returns.empty() && std::all_of(returns.begin(), returns.end(), is_view);
}

size_t device_slot(c10::DeviceType device) { return device == c10::kCPU ? 0 : 1; }

c10::DispatchKey backend_key(c10::DeviceType device) {
  return c10::DispatchKeySet(
             c10::computeDispatchKey(c10::kFloat, c10::kStrided, c10::Device(device)))
      .highestPriorityTypeId();
}

bool has_kernel(const c10::OperatorHandle& op, c10::DispatchKey key) {
  return op.hasKernelForDispatchKey(key);
}

c10::DispatchKey autograd_key(c10::DispatchKey backend) {
  return c10::getAutogradKeyFromBackend(c10::toBackendComponent(backend));
}

}  // namespace

Operator::Operator(const c10::OperatorHandle& found)
    : handle(found),
      name(found.operator_name().name),
      base(found.schema().name().c_str()),
      overload(found.schema().overload_name().c_str()),
      returns(found.schema().returns().size()),
      trust(trust_in(name)),
      view(returns_only_views(found.schema())),
      foreign(name_space(name) != "aten"),
      undefined(contains(kUndefined, name)),
      factory(contains(kFactories, name)),
      seeded(found.hasTag(at::Tag::nondeterministic_seeded)),
      resizes(contains(kResizing, name)),
      pointwise(found.hasTag(at::Tag::pointwise)),
      unordered_on_cuda(contains(kUnorderedOnCuda, name)),
      unsteady(contains(kUnsteady, name)) {
  const bool norm = contains(kNorms, name);
  const bool overwrites = contains(kOverwriting, name);
  for (const c10::Argument& from : found.schema().arguments()) {
    Argument argument;
    argument.name = from.name();
    argument.written = from.alias_info() != nullptr && from.alias_info()->isWrite();
    // out= of aten; elsewhere a keyword may be added to.
    const bool out = from.kwarg_only() && trust_in(name) == Trust::aten;
    argument.overwritten = argument.written && (overwrites || out);
    argument.generator = from.type()->str() == "Generator?" || from.type()->str() == "Generator";
    argument.statistic =
        norm && (argument.name == "running_mean" || argument.name == "running_var");
    if (norm && (argument.name == "training" || argument.name == "train"))
      training = static_cast<int>(arguments.size());
    seeded = seeded || argument.generator;
    writes = writes || argument.written || argument.statistic;
    arguments.push_back(std::move(argument));
  }
  if (name == "aten::_batch_norm_with_update") training = -2;  // always trains
  for (const auto& [op, result] : kUnrepeatable) {
    if (name == op) unrepeatable_results |= 1U << result;
  }
  if (overload[0] != '\0') name += std::string(".") + overload;
  reshapes = contains(kReshaping, std::string_view(base));
  view = (view && !writes) || reshapes;
}

bool Operator::is_composite(c10::DeviceType device) const {
  auto& known = composite_[device_slot(device)];
  if (known == kUnasked) {
    const auto backend = backend_key(device);
    // The dispatcher prefers a CompositeImplicitAutograd kernel to one for all of Autograd (linear
    // and matmul have both).
    const bool composite = has_kernel(handle, c10::DispatchKey::CompositeImplicitAutograd) &&
                           !has_kernel(handle, backend) &&
                           !has_kernel(handle, autograd_key(backend));
    const bool own_autograd =
        trust != Trust::aten && (has_kernel(handle, c10::DispatchKey::Autograd) ||
                                 has_kernel(handle, autograd_key(backend)));
    known = composite || own_autograd ? kYes : kNo;
  }
  return known == kYes;
}

bool Operator::is_autocast(c10::DeviceType device) const {
  if (!at::autocast::is_autocast_available(device) || !at::autocast::is_autocast_enabled(device))
    return false;
  auto& known = autocast_[device_slot(device)];
  const auto key = at::autocast::get_autocast_dispatch_key_from_device_type(device);
  if (known == kUnasked) known = has_kernel(handle, key) ? kYes : kNo;
  return known == kYes && !c10::impl::tls_is_dispatch_key_excluded(key);
}

namespace {

struct KnownOperators {
  std::mutex& mutex = immortal_mutex();
  std::unordered_map<const char*, std::unique_ptr<Operator>> by_address;
  std::unordered_set<std::string> replayable;  ///< by name, without the overload
};

KnownOperators& known_operators() {
  static auto& known = *new KnownOperators;  // outlives every thread
  return known;
}

}  // namespace

void Operator::declare_replayable(const std::string& name) {
  TORCH_CHECK(name.find("::") != std::string::npos, "remat: an operator is declared replayable by ",
              "its full name, \"namespace::name\", not \"", name, "\"");
  TORCH_CHECK(trust_in(name) != Trust::aten, "remat: ", name,
              " is an operator of torch; those are recomputed without a declaration");
  auto& known = known_operators();
  const std::lock_guard lock(known.mutex);
  known.replayable.insert(name);
  for (auto& [address, op] : known.by_address) {
    // Not by the schema's own string: a library may have taken the operator back.
    if (op->name.substr(0, op->name.find('.')) == name) op->trust_as_aten();
  }
}

void Operator::trust_as_aten() {
  trust = Trust::aten;
  for (auto& known : composite_) known = kUnasked;  // asked with the other trust
}

const Operator* Operator::of(const at::RecordFunction& event) {
  // The schema's own strings identify an operator: their address is compared, then the text, since
  // an operator that a library took back may leave its address to another.
  thread_local ska::flat_hash_map<const char*, const Operator*> by_address;
  const char* base = event.name();
  const auto found = by_address.find(base);
  if (found != by_address.end() && found->second->overload == event.overload_name() &&
      std::strcmp(found->second->base, base) == 0) {
    return found->second;
  }
  const auto name = event.operator_name();
  if (!name) return nullptr;
  const auto handle = c10::Dispatcher::singleton().findSchema(*name);
  if (!handle) return nullptr;
  auto& known = known_operators();
  const std::lock_guard lock(known.mutex);
  auto& entry = known.by_address[base];
  if (!entry || !(entry->handle == *handle)) {
    static_cast<void>(entry.release());  // calls on older tapes still point to it
    entry = std::make_unique<Operator>(*handle);
    if (known.replayable.count(entry->base) != 0) entry->trust_as_aten();
  }
  by_address[base] = entry.get();
  return entry.get();
}

}  // namespace remat::record
