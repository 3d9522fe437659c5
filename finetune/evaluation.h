#pragma once

#include <cstdint>

#include "finetune/dataset.h"
#include "finetune/listener.h"
#include "finetune/model.h"

namespace remat::finetune {

/// The mean loss over all trained tokens of the data, and its exponential. Without gradients and
/// without logits of more than a chunk of tokens; dropout is off.
EvalReport evaluate(const Model& model, const Dataset& data, int64_t batch_size);

}  // namespace remat::finetune
