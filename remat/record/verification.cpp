#include "remat/record/verification.h"

#include <c10/util/Exception.h>

#include "remat/record/view.h"

namespace remat::record {

using tape::kNone;
using tape::SavedId;
using tape::ValueId;

namespace {

thread_local int scopes = 0;
thread_local std::string module_name;

/// All of a storage in elements of the tensor's type: of what was made outside, others read other
/// parts.
at::Tensor whole(const at::Tensor& tensor) {
  if (covers_storage(tensor)) return tensor;
  auto geometry = geometry_of(tensor);
  geometry.offset = 0;
  geometry.conjugate = geometry.negative = false;
  const auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
  geometry.extents = {bytes / geometry.dtype.bytes, 1};
  return view_over(tensor.storage(), geometry);
}

}  // namespace

bool verifies_by_default() { return scopes > 0; }
VerifyScope::VerifyScope() { ++scopes; }
VerifyScope::~VerifyScope() { --scopes; }

void set_module_name(std::string name) { module_name = std::move(name); }

void Verification::note_made(ValueId value, const at::Tensor& tensor, const std::string& op) {
  if (value >= noted_.size()) noted_.resize(value + 1);
  noted_[value] = std::make_unique<Noted>(Noted{Fingerprint(tensor), op, module_name, suspicion_});
}

void Verification::note_written(ValueId value, ValueId before, const at::Tensor& tensor,
                                const std::string& op) {
  const Noted* noted = find(before);
  const bool all =
      noted == nullptr || covers_storage(tensor) ||
      noted->print.geometry().reach() > static_cast<int64_t>(tensor.storage().nbytes());
  note_made(value, all ? tensor : view_over(tensor.storage(), noted->print.geometry()), op);
}

void Verification::note_parameter(ValueId value, const at::Tensor& parameter) {
  if (find(value) == nullptr) note_made(value, parameter, "");
}

void Verification::note_source(ValueId value, const at::Tensor& tensor) {
  if (find(value) == nullptr) note_made(value, whole(tensor), "");
}

void Verification::note_read(ValueId value, const c10::Storage& storage, const std::string& op) {
  const Noted* noted = find(value);
  if (noted == nullptr || noted->op.empty() || !suspicion_.empty()) return;
  if (const auto where = difference(*noted, storage))
    suspicion_ = unseen_write(*noted, *where, op + " read it");
}

void Verification::note_saved(SavedId saved, ValueId value, const c10::Storage& storage) {
  const Noted* noted = find(value);
  if (noted == nullptr) return;
  if (const auto where = difference(*noted, storage))
    suspicious_[saved] = unseen_write(*noted, *where, "autograd saved it");
}

void Verification::check_found(ValueId value, const c10::Storage& storage) const {
  const Noted* noted = find(value);
  if (noted == nullptr) return;
  const auto where = difference(*noted, storage);
  if (!where) return;
  TORCH_CHECK(noted->op.empty(),
              "remat.verify: ", unseen_write(*noted, *where, "backward read it"));
  TORCH_CHECK(false, "remat.verify: ", name_of(*noted),
              ", which was made outside the region and is read in it, was changed between the "
              "forward pass and backward, first in ",
              *where, ". Change it after backward, or give the region a clone.");
}

void Verification::check_made(ValueId value, const c10::Storage& storage) const {
  const Noted* noted = find(value);
  if (noted == nullptr) return;
  const auto where = difference(*noted, storage);
  if (!where) return;
  TORCH_CHECK(noted->suspicion.empty(), "remat.verify: ", noted->suspicion);
  TORCH_CHECK(false, "remat.verify: recomputing ", name_of(*noted), " gave other values, first in ",
              *where,
              ", from the same operands in the same state: the kernel does not repeat its "
              "own results. Keep them with a policy, for example remat.keep_ops([\"",
              noted->op, "\"]).");
}

void Verification::check_saved(SavedId saved, ValueId value, const c10::Storage& storage) const {
  const auto found = suspicious_.find(saved);
  TORCH_CHECK(found == suspicious_.end(), "remat.verify: ", found->second);
  check_found(value, storage);
}

const Verification::Noted* Verification::find(ValueId value) const {
  return value < noted_.size() ? noted_[value].get() : nullptr;
}

std::optional<std::string> Verification::difference(const Noted& noted,
                                                    const c10::Storage& storage) {
  // Memory that two storages show (from_numpy) is noted by one and may be read by the other.
  if (noted.print.geometry().reach() > static_cast<int64_t>(storage.nbytes())) return std::nullopt;
  return noted.print.difference(Fingerprint(view_over(storage, noted.print.geometry())));
}

/// "aten::exp in layers.0 (Block), float32[4, 4]", or "a tensor float32[4, 4]".
std::string Verification::name_of(const Noted& noted) {
  const std::string what = noted.op.empty() ? "a tensor " : noted.op;
  const std::string where = noted.module.empty() ? "" : " in " + noted.module;
  const std::string shape = tape::to_text(noted.print.geometry());
  return noted.op.empty() ? what + shape + where : what + where + ", " + shape + ",";
}

std::string Verification::unseen_write(const Noted& noted, const std::string& where,
                                       const std::string& before) {
  return "the result of " + name_of(noted) + " was changed before " + before + ", first in " +
         where +
         ", by something that no operator and no version counter shows (numpy, a custom kernel, "
         "another process). Write it through torch, call torch.autograd.graph.increment_version, "
         "or keep it with a policy, for example remat.keep_ops([\"" +
         noted.op + "\"]).";
}

void Verification::renumber(const std::vector<ValueId>& values) {
  std::vector<std::unique_ptr<Noted>> left(noted_.size());
  size_t size = 0;
  for (ValueId value = 0; value < noted_.size(); ++value) {
    if (!noted_[value] || values[value] == kNone) continue;
    left[values[value]] = std::move(noted_[value]);
    size = values[value] + 1;
  }
  left.resize(size);
  noted_ = std::move(left);
}

}  // namespace remat::record
