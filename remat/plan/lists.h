#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace remat::plan {

/// Rows of ids in one array (compressed sparse rows): a simulation walks them all, thousands of
/// times a plan, and a vector a row would be a cache miss a row.
class Lists {
 public:
  [[nodiscard]] int32_t rows() const { return static_cast<int32_t>(starts_.size()) - 1; }
  [[nodiscard]] size_t ids() const { return ids_.size(); }

  std::span<const int32_t> operator[](int32_t row) const {
    const auto first = starts_[static_cast<size_t>(row)];
    return {ids_.data() + first, starts_[static_cast<size_t>(row) + 1] - first};
  }

  /// Appends to the row that is open.
  void push(int32_t id) { ids_.push_back(id); }
  /// Closes the open row; the next one is empty.
  void end_row() { starts_.push_back(static_cast<uint32_t>(ids_.size())); }
  /// Appends a row. The open one has to be empty.
  void add_row(std::span<const int32_t> row) {
    ids_.insert(ids_.end(), row.begin(), row.end());
    end_row();
  }
  void clear() {
    starts_.assign(1, 0);
    ids_.clear();
  }

  bool operator==(const Lists&) const = default;

 private:
  std::vector<uint32_t> starts_ = {0};  ///< one more than rows, ascending, the first is 0
  std::vector<int32_t> ids_;
};

}  // namespace remat::plan
