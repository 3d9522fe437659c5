#include "finetune/traced_step.h"

#include <ATen/ATen.h>

#include "remat/session.h"

namespace remat::finetune {

namespace {

void run(Session& session, const Model& model, const Batch& batch) {
  auto step = session.step();
  model.loss(batch, 1.0 / static_cast<double>(batch.trained)).backward();
  for (const auto& [name, parameter] : model.trained()) parameter.mutable_grad().reset();
  step.end();
}

}  // namespace

plan::Trace traced_step(const Model& model, const Batch& batch) {
  constexpr int64_t kPlenty = int64_t{1} << 60;
  Session session({.activation_bytes = kPlenty});
  run(session, model, batch);
  return *session.trace();
}

int64_t least_budget(const Model& model, const Batch& batch) {
  Session session({.activation_bytes = 1});
  try {
    run(session, model, batch);
  } catch (const DoesNotFit& misfit) {
    return misfit.least_bytes();
  }
  return 0;  // there is nothing to recompute
}

}  // namespace remat::finetune
