#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace remat::record {

/// The last `count` values: interpreters call operators with their whole stack, of which the top is
/// the operator's.
inline at::ArrayRef<c10::IValue> last(at::ArrayRef<c10::IValue> values, size_t count) {
  return values.slice(values.size() - count);
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

/// The device of the first tensor or device among the arguments; the CPU where there is none.
inline c10::DeviceType device_of(at::ArrayRef<c10::IValue> arguments) {
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor() && argument.toTensor().defined())
      return argument.toTensor().device().type();
    if (argument.isDevice()) return argument.toDevice().type();
    if (argument.isTensorList() && !argument.toListRef().empty()) {
      const auto& first = argument.toListRef()[0].toTensor();
      if (first.defined()) return first.device().type();
    }
  }
  return c10::kCPU;
}

/// The tensor's count of in-place changes; 0 where it has none (inference tensors).
inline uint32_t version_of(const at::Tensor& tensor) {
  const auto& counter = tensor.unsafeGetTensorImpl()->version_counter();
  return counter.enabled() ? counter.current_version() : 0;
}

}  // namespace remat::record
