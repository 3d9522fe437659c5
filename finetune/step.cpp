#include "finetune/step.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include <ATen/ATen.h>

#include "remat/memory/memory.h"

namespace remat::finetune {

namespace {

int64_t live() { return static_cast<int64_t>(memory::live_bytes()); }

int64_t trained_tokens(const std::vector<Batch>& batches) {
  return std::accumulate(batches.begin(), batches.end(), int64_t{0},
                         [](int64_t sum, const Batch& batch) { return sum + batch.trained; });
}

}  // namespace

Passes forward_and_backward(const Model& model, const std::vector<Batch>& batches,
                            Session* session) {
  Passes passes;
  const int64_t before = live();
  memory::reset_peak();
  const double scale = 1.0 / static_cast<double>(trained_tokens(batches));
  for (const auto& batch : batches) {
    std::optional<Session::Step> step;
    if (session != nullptr) step.emplace(session->step());
    const auto loss = model.loss(batch, scale);
    if (passes.tokens == 0) passes.after_forward_bytes = live() - before;
    loss.backward();
    if (step) step->end();
    passes.loss += loss.item<double>();
    passes.tokens += batch.length;
  }
  passes.peak_bytes = static_cast<int64_t>(memory::peak_bytes()) - before;
  return passes;
}

}  // namespace remat::finetune
