#pragma once

#include "finetune/batch.h"
#include "finetune/model.h"
#include "remat/plan/trace.h"

namespace remat::finetune {

/// The forward and backward pass of the model on this batch as a planning problem. Runs them once,
/// keeping nothing; drops the trained parameters' gradients, and draws from the default generator.
/// REQUIRES: memory::install() was called.
plan::Trace traced_step(const Model& model, const Batch& batch);

/// The least that they fit into, bytes over what is live now. Runs them once, likewise.
int64_t least_budget(const Model& model, const Batch& batch);

}  // namespace remat::finetune
