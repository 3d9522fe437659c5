#include "app/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace remat::app {

namespace {

/// Levenshtein's: insertions, deletions and substitutions, row by row.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({diagonal + 1, row[j] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(const std::string& typed, const std::vector<std::string>& names) {
  const auto by_distance = [&](const std::string& a, const std::string& b) {
    return distance(typed, a) < distance(typed, b);
  };
  const auto best = std::ranges::min_element(names, by_distance);
  if (best == names.end()) return {};
  return distance(typed, *best) <= 1 + best->size() / 3 ? *best : std::string();
}

}  // namespace remat::app
