#pragma once

#include <memory>
#include <span>
#include <vector>

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include "remat/record/ambient.h"
#include "remat/record/operator.h"
#include "remat/record/view.h"
#include "remat/tape/call.h"

namespace remat::record {

/// A call that can be made again: the operator, its plain arguments, and where its tensors go.
struct Call : tape::Call {
  enum class Slot : uint8_t { plain, tensor, tensors, optional_tensors, generator };

  const Operator* target = nullptr;
  std::vector<Slot> slots;  ///< one an argument
  std::vector<c10::IValue>
      plain;                     ///< one an argument; None where the slot is filled from `tensors`
  std::vector<uint32_t> counts;  ///< tensors in each slot
  std::vector<int32_t>
      tensors;  ///< for every tensor of every slot its index in `reads`, -1: undefined
  std::shared_ptr<const Ambient> ambient;
  std::vector<uint64_t> key;  ///< what two calls must have in common to be one

  /// The arguments on a stack. `reads` has a tensor for each of the call's reads; `generator` goes
  /// where the operator takes one.
  [[nodiscard]] torch::jit::Stack stack(std::span<const at::Tensor> reads,
                                        const at::Generator& generator) const;
};

/// Collects one call while it runs, then gives the interned Call.
class CallBuilder {
 public:
  /// `device`: where the operator runs.
  void start(const Operator& op, c10::DeviceType device);
  /// Adds an argument. `on_tensor` is called for every defined tensor that is not a wrapped number;
  /// it returns false if the tensor cannot be recorded, and then so does add.
  template <typename OnTensor>
  bool add(const c10::IValue& argument, const OnTensor& on_tensor);

  void add_write(tape::Write write);
  /// A result with a storage of its own.
  void add_result(const at::Tensor& result);
  /// The call with everything added so far. Calls that are equal in all of it are one object.
  std::shared_ptr<const Call> finish();

  [[nodiscard]] size_t reads() const { return reads_; }

 private:
  static Call::Slot slot_of(const c10::IValue& argument);
  void open_slot(Call::Slot slot, size_t count);
  template <typename OnTensor>
  bool add_tensor(const c10::IValue& value, const OnTensor& on_tensor);
  void add_plain(const c10::IValue& argument);
  void add_number(const at::Tensor& wrapped);
  void add_geometry(const at::Tensor& tensor);
  void encode(const c10::IValue& argument);
  void put(uint64_t word) { key_.push_back(word); }

  Call draft_;
  std::vector<uint64_t> key_;
  std::vector<size_t> geometries_;  ///< where in the key each geometry begins: reads, then results
  std::vector<int64_t> allocated_;
  uint32_t reads_ = 0;
  bool internable_ = true;
};

template <typename OnTensor>
bool CallBuilder::add(const c10::IValue& argument, const OnTensor& on_tensor) {
  const Call::Slot slot = slot_of(argument);
  if (slot == Call::Slot::plain) {
    add_plain(argument);
    return true;
  }
  if (slot == Call::Slot::tensor) {
    const at::Tensor& tensor = argument.toTensor();
    if (tensor.defined() && tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      add_number(tensor);
      return true;
    }
    open_slot(slot, 1);
    return add_tensor(argument, on_tensor);
  }
  const auto elements = argument.toListRef();
  open_slot(slot, elements.size());
  for (const auto& element : elements) {
    if (!add_tensor(element, on_tensor)) return false;
  }
  return true;
}

template <typename OnTensor>
bool CallBuilder::add_tensor(const c10::IValue& value, const OnTensor& on_tensor) {
  if (!value.isTensor() || !value.toTensor().defined()) {
    draft_.tensors.push_back(-1);
    put(~0ULL);
    return true;
  }
  const at::Tensor& tensor = value.toTensor();
  if (!on_tensor(tensor)) return false;
  add_geometry(tensor);
  draft_.tensors.push_back(static_cast<int32_t>(reads_++));
  return true;
}

}  // namespace remat::record
