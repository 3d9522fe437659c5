#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

/// Tensors that Python wraps around others (nested jagged tensors, DTensor): what autograd saves of
/// them is recomputed by the tensors inside.
namespace remat::saved {

/// A wrapper taken apart.
struct Parts {
  std::vector<at::Tensor> tensors;
  /// All else that it takes to put them together again. Dies with or without the interpreter's
  /// lock.
  std::shared_ptr<void> how;
};

/// How wrappers are taken apart, nothing where a tensor is none that can be, and put together. Both
/// may be called without the interpreter's lock. Set once, before the first region.
struct WrapperHooks {
  std::optional<Parts> (*take_apart)(const at::Tensor& wrapper) = nullptr;
  at::Tensor (*put_together)(const Parts& parts) = nullptr;
};
void set_wrapper_hooks(WrapperHooks hooks);

/// Nothing where the tensor is no wrapper, or nobody knows how.
std::optional<Parts> take_apart(const at::Tensor& tensor);
at::Tensor put_together(const Parts& parts);

}  // namespace remat::saved
