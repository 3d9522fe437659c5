#pragma once

#include <cstdint>
#include <vector>

#include "finetune/batch.h"
#include "finetune/model.h"
#include "remat/session.h"

namespace remat::finetune {

/// What the forward and backward passes of one step gave, besides the gradients.
struct Passes {
  double loss = 0;                  ///< mean over the trained tokens of all micro-batches together
  int64_t tokens = 0;               ///< without padding
  int64_t peak_bytes = 0;           ///< the most that lived at once beyond what lived before
  int64_t after_forward_bytes = 0;  ///< after the first forward, likewise
};

/// Adds the gradients of one step to the trained parameters. Every trained token counts the same,
/// in whichever micro-batch it lies: a mean of means would weigh the tokens of short rows more.
/// Resets the peak of remat::memory. With a session every micro-batch is a step of it; throws
/// DoesNotFit as it does.
Passes forward_and_backward(const Model& model, const std::vector<Batch>& batches,
                            Session* session = nullptr);

}  // namespace remat::finetune
