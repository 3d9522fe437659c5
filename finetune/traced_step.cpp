#include "finetune/traced_step.h"

#include <ATen/ATen.h>

#include "remat/session.h"

namespace remat::finetune {

plan::Trace traced_step(const Model& model, const Batch& batch) {
  constexpr int64_t kPlenty = int64_t{1} << 60;
  Session session({.activation_bytes = kPlenty});
  auto step = session.step();
  model.loss(batch, 1.0 / static_cast<double>(batch.trained)).backward();
  step.end();
  for (const auto& [name, parameter] : model.trained()) parameter.mutable_grad().reset();
  return *session.trace();
}

}  // namespace remat::finetune
