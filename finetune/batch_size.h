#pragma once

#include <cstdint>

#include "finetune/dataset.h"
#include "finetune/model.h"

namespace remat::finetune {

/// The largest micro-batch whose passes fit `available` bytes over what is live now, whichever rows
/// it is made of; at least 1, at most all rows. Measures a few steps on the longest rows and plans
/// the least budget of each; leaves the model as it was.
int64_t largest_batch_size(const Model& model, const Dataset& data, int64_t available);

}  // namespace remat::finetune
