#include "finetune/batch.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "finetune/loss.h"

namespace remat::finetune {

namespace {

int64_t longest(const Dataset& dataset, const std::vector<int64_t>& rows) {
  size_t longest = 0;
  for (const int64_t index : rows) longest = std::max(longest, dataset.row(index).tokens.size());
  return static_cast<int64_t>(longest);
}

void fill(const Row& row, int64_t* tokens, int64_t* labels) {
  std::ranges::copy(row.tokens, tokens);
  for (size_t at = 1; at < row.tokens.size(); ++at) {
    if (row.mask[at] != 0) labels[at - 1] = row.tokens[at];
  }
}

}  // namespace

Batch make_batch(const Dataset& dataset, const std::vector<int64_t>& rows) {
  const auto count = static_cast<int64_t>(rows.size());
  const int64_t width = longest(dataset, rows);
  Batch batch;
  // Any token pads: no trained token sees it. 0 is in every vocabulary.
  batch.tokens = at::zeros({count, width}, at::kLong);
  batch.labels = at::full({count, width}, kIgnored, at::kLong);
  for (int64_t at = 0; at < count; ++at) {
    const Row row = dataset.row(rows[static_cast<size_t>(at)]);
    fill(row, batch.tokens.mutable_data_ptr<int64_t>() + at * width,
         batch.labels.mutable_data_ptr<int64_t>() + at * width);
    batch.length += static_cast<int64_t>(row.tokens.size());
    batch.trained += row.trained();
  }
  return batch;
}

Batch random_batch(int64_t rows, int64_t length, int64_t vocabulary) {
  Batch batch;
  batch.tokens = at::randint(vocabulary, {rows, length}, at::kLong);
  batch.labels = at::full({rows, length}, kIgnored, at::kLong);
  batch.labels.narrow(1, 0, length - 1).copy_(batch.tokens.narrow(1, 1, length - 1));
  batch.length = rows * length;
  batch.trained = rows * (length - 1);
  return batch;
}

}  // namespace remat::finetune
