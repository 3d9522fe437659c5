#include "finetune/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "finetune/batch.h"

namespace remat::finetune {

EvalReport evaluate(const Model& model, const Dataset& data, int64_t batch_size) {
  const at::NoGradGuard no_grad;
  const auto start = std::chrono::steady_clock::now();
  double sum = 0;  // in double: thousands of batches
  EvalReport report;
  for (int64_t at = 0; at < data.rows(); at += batch_size) {
    std::vector<int64_t> rows(static_cast<size_t>(std::min(batch_size, data.rows() - at)));
    std::iota(rows.begin(), rows.end(), at);
    const auto batch = make_batch(data, rows);
    sum += model.loss(batch, /*scale=*/1).item<double>();
    report.tokens += batch.trained;
  }
  report.rows = data.rows();
  report.loss = sum / static_cast<double>(report.tokens);
  report.perplexity = std::exp(report.loss);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace remat::finetune
