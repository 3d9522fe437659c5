#include "remat/saved/wrapper.h"

#include "remat/record/recorder.h"

namespace remat::saved {

namespace {

WrapperHooks wrapper_hooks;

}  // namespace

void set_wrapper_hooks(WrapperHooks hooks) { wrapper_hooks = hooks; }

std::optional<Parts> take_apart(const at::Tensor& tensor) {
  const bool is_wrapper = tensor.key_set().has(c10::DispatchKey::Python);
  if (!is_wrapper || wrapper_hooks.take_apart == nullptr) return std::nullopt;
  const record::Recorder::Pause pause;
  return wrapper_hooks.take_apart(tensor);
}

at::Tensor put_together(const Parts& parts) {
  const record::Recorder::Pause pause;
  return wrapper_hooks.put_together(parts);
}

}  // namespace remat::saved
