#include "finetune/batch_size.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "finetune/batch.h"
#include "finetune/traced_step.h"

namespace remat::finetune {

namespace {

std::vector<int64_t> longest_first(const Dataset& data) {
  std::vector<int64_t> rows(static_cast<size_t>(data.rows()));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  std::ranges::stable_sort(rows, std::greater<>(),
                           [&](int64_t row) { return data.row(row).tokens.size(); });
  return rows;
}

}  // namespace

int64_t largest_batch_size(const Model& model, const Dataset& data, int64_t available) {
  const auto rows = longest_first(data);
  // The least budget that planners find moves with the times that they are told: a sixteenth is
  // left for that.
  const auto needed = [&](int64_t size) {
    const auto least = least_budget(model, make_batch(data, {rows.begin(), rows.begin() + size}));
    return least + least / 16;
  };
  const int64_t one = needed(1);
  if (data.rows() == 1 || one > available) return 1;
  // Bytes grow by about the same with every row: what two small batches need says where to look,
  // so that no trial takes much more than the budget.
  const int64_t more = std::max<int64_t>(1, needed(2) - one);
  int64_t size = std::min(data.rows(), 1 + (available - one) / more);
  while (size > 1 && needed(size) > available) --size;
  return size;
}

}  // namespace remat::finetune
