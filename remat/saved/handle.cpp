#include "remat/saved/handle.h"

#include <algorithm>

#include <ATen/SequenceNumber.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/variable.h>

#include "remat/record/spot.h"
#include "remat/record/view.h"
#include "remat/saved/wrapper.h"

namespace remat::saved {

namespace {

int64_t bytes_of(const at::Tensor& tensor) {
  return tensor.numel() * static_cast<int64_t>(tensor.itemsize());
}

thread_local GivenObjects* given_objects = nullptr;

bool (*object_test)(const c10::TensorImpl& tensor) = nullptr;

/// True iff the custom Function that is running made the tensor: its node is the newest.
bool is_result_of_function(const at::Tensor& tensor) {
  const auto& node = tensor.grad_fn();
  return node != nullptr && node->sequence_nr() + 1 == at::sequence_number::peek();
}

bool counts_versions(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->version_counter().enabled();
}

}  // namespace

GivenObjects::GivenObjects() : around_(std::exchange(given_objects, this)) {}
GivenObjects::~GivenObjects() { given_objects = around_; }

void GivenObjects::note(const at::Tensor& object) {
  if (given_objects != nullptr) given_objects->objects_.push_back(object);
}

at::Tensor GivenObjects::behind(const at::Tensor& given) const {
  const auto is_it = [&](const at::Tensor& object) {
    return object.requires_grad() == given.requires_grad() && object.grad_fn() == given.grad_fn() &&
           object.output_nr() == given.output_nr() && object.has_storage() && given.has_storage() &&
           object.storage().is_alias_of(given.storage()) &&
           record::geometry_of(object) == record::geometry_of(given);
  };
  const auto found = std::find_if(objects_.begin(), objects_.end(), is_it);
  if (found == objects_.end()) return {};
  const auto asking = torch::autograd::get_current_node();
  return asking != nullptr && found->grad_fn() == asking ? at::Tensor() : *found;
}

void set_object_test(bool (*test)(const c10::TensorImpl& tensor)) { object_test = test; }

Handle::~Handle() {
  if (!settled_ && kept_.defined()) {
    if (auto* recorder = record::Recorder::current()) recorder->withdraw(*this);
  }
  if (!recording_ || where_.saved == tape::kNone) return;
  if (recording_.use_count() == 1) return;  // the recording goes with this handle, and all it holds
  // No lock may be waited for here: this runs wherever a graph dies, with Python's lock held or a
  // replay under way.
  where_.state->released.store(true, std::memory_order_release);
  if (recording_->source) recording_->source->forget(*recording_, where_.saved);
}

/// A leaf is kept as itself: sharded training swaps the storage under a parameter, and a saved
/// tensor that needs no grad comes back as the same object. So is a view of a parameter. Anything
/// else is kept without its graph, which would be a cycle where the tensor is the operator's own
/// result. What a custom Function saves and did not make is kept as itself too: its backward may
/// look at the object. Where that has attributes, the object has to stay, not only its bytes.
void Handle::call_pack_hook(const at::Tensor& tensor) {
  if (take_apart(tensor)) return;
  auto* recorder = record::Recorder::current();
  const bool by_function =
      recorder != nullptr && recorder->is_in_function() && !is_result_of_function(tensor);
  const bool as_itself = tensor.is_leaf() || by_function || record::parameter_of(tensor) != nullptr;
  kept_ = as_itself ? tensor : tensor.tensor_data();
  version_ = counts_versions(tensor) ? tensor._version() : 0;
  const bool is_more =
      by_function && object_test != nullptr && object_test(*tensor.unsafeGetTensorImpl());
  if (recorder == nullptr) {
    settle(record::Location::kept(record::Reason::suspended));
  } else if (is_more) {
    settle(record::Location::kept(record::Reason::opaque));
  } else {
    recorder->pack(*this, tensor);
  }
}

/// True iff the tensor is wrapped around others, which handles of their own then stand for.
bool Handle::take_apart(const at::Tensor& tensor) {
  if (tensor.is_leaf() || around_) return false;
  auto parts = saved::take_apart(tensor);
  if (!parts) return false;
  how_ = std::move(parts->how);
  for (const at::Tensor& part : parts->tensors) {
    parts_.push_back(std::make_unique<Handle>(recording_, nullptr));
    parts_.back()->call_pack_hook(part);
  }
  return true;
}

at::Tensor Handle::put_together() {
  Parts parts{{}, how_};
  for (const auto& part : parts_) parts.tensors.push_back(part->call_unpack_hook());
  return saved::put_together(parts);
}

void Handle::settle(record::Location location) {
  settled_ = true;
  where_ = std::move(location);
  auto& counters = record::counters();
  const auto reason = static_cast<size_t>(where_.reason);
  counters.saved_tensors[reason].fetch_add(1, std::memory_order_relaxed);
  const bool plain = where_.reason != record::Reason::opaque;
  counters.saved_bytes[reason].fetch_add(plain ? bytes_of(kept_) : 0, std::memory_order_relaxed);
  // A parameter lives anyway: there is nothing to offload.
  const bool given = where_.saved == tape::kNone && where_.reason != record::Reason::parameter;
  if (!given) around_.reset();
  if (around_) give_to_hooks();
  if ((where_.saved != tape::kNone && !where_.as_object) || around_) kept_.reset();
  if (where_.saved == tape::kNone && !recording_->whole) recording_.reset();
}

void Handle::give_to_hooks() {
  const record::Recorder::Pause pause;
  try {
    around_->call_pack_hook(kept_);
  } catch (...) {
    around_.reset();  // the tensor stays kept
    throw;
  }
}

at::Tensor Handle::call_unpack_hook() {
  if (!parts_.empty()) return put_together();
  return where_.saved == tape::kNone ? kept() : recomputed();
}

uint32_t Handle::version_now() const {
  return counts_versions(kept_) ? kept_._version() : version_;
}

at::Tensor Handle::kept() const {
  if (recording_) recording_->announce_backward();
  if (around_) return around_->call_unpack_hook();
  // Autograd checks versions only of tensors without hooks.
  const uint32_t now = version_now();
  TORCH_CHECK(now == version_,
              "one of the variables needed for gradient computation has been modified by an "
              "inplace operation: [",
              kept_.toString(), " ", kept_.sizes(), "] is at version ", now, "; expected version ",
              version_, " instead.");
  GivenObjects::note(kept_);
  return kept_;
}

void Handle::verify(const c10::Storage& storage) const {
  const auto lock = recording_->lock();
  const auto value = recording_->tape.saved()[where_.saved].value;
  recording_->verification->check_saved(where_.saved, value, storage);
}

/// The tensor object that autograd saved, where the program still has it over this storage: a
/// backward that writes or returns it then does so with the program's own, as in plain training.
at::Tensor Handle::shown(const c10::Storage& storage) const {
  // Unless a backward that was given it has used it as scratch: then it is the storage that is
  // right.
  const bool unchanged = kept_.defined() && version_now() == version_;
  if (unchanged) return kept_;
  auto tensor = at::Tensor(where_.state->shown.lock());
  const bool is_it = tensor.defined() && tensor.has_storage() &&
                     tensor.storage().is_alias_of(storage) &&
                     record::geometry_of(tensor) == where_.geometry;
  return is_it ? tensor : at::Tensor();
}

at::Tensor Handle::recomputed() const {
  auto given = recording_->source->fetch(*recording_, where_.saved);
  if (recording_->verification) verify(given.storage);
  auto tensor = shown(given.storage);
  if (tensor.defined()) {
    GivenObjects::note(tensor);
  } else {
    tensor = record::view_over(std::move(given.storage), where_.geometry);
    if (given.counter.enabled()) tensor.unsafeGetTensorImpl()->set_version_counter(given.counter);
    auto* recorder = record::Recorder::current();
    if (recorder != nullptr && recorder->recording() == recording_)
      recorder->note_given(tensor, where_.saved);
  }
  if (where_.cloned) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const record::Recorder::Pause pause;
    tensor = tensor.clone();
  }
  if (where_.spot == 0 || record::spot_hash(tensor) == where_.spot) return tensor;
  const auto lock = recording_->lock();
  const auto& value = recording_->tape.value(recording_->tape.saved()[where_.saved].value);
  const std::string op = value.producer == tape::kNone
                             ? "an operator"
                             : recording_->tape.node(value.producer).call->op;
  TORCH_CHECK(false, "remat: recomputing ", op, " gave other values than the forward pass saved (",
              tape::to_text(where_.geometry),
              "). Something it read was changed without a trace (a write through numpy, `.data` or "
              "a custom kernel), or it does not "
              "repeat itself. Keep its result with a policy, for example remat.keep_ops([\"",
              op, "\"]), or leave it out of the region.");
}

}  // namespace remat::saved
