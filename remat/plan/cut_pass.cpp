#include <algorithm>
#include <optional>
#include <vector>

#include "remat/plan/byte_cut.h"
#include "remat/plan/passes.h"

namespace remat::plan {

namespace {

size_t at(int32_t id) { return static_cast<size_t>(id); }

constexpr size_t kFewestFamilies = 4;
constexpr size_t kFamilyOperators = 40'000;  ///< more families only where they are cheap
constexpr size_t kPolished = 3;              ///< families whose cuts are polished

/// The cuts on both sides of the budget.
struct Bracket {
  KeepSet over;   ///< the last that does not fit; empty when the first fits
  KeepSet under;  ///< the cheapest that fits
  Cost cost;      ///< of `under`
};

/// Of the family of cuts in which these boundaries are kept for free.
std::optional<Bracket> bracket(Search& search, const std::vector<ValueId>& boundaries) {
  auto free = search.free();
  for (const ValueId value : boundaries) free[at(value)] = 1;
  ByteCut cut(search.trace(), {}, std::move(free));
  Bracket found;
  const bool any = cut.search([&] {
    KeepSet keep = cut.keep();
    const Cost cost = search.offer(keep);
    if (cost.peak > search.budget()) {
      found.over = std::move(keep);
      return false;
    }
    if (found.under.empty() || cost.us < found.cost.us) {
      found.under = std::move(keep);
      found.cost = cost;
    }
    return true;
  });
  if (!any) return std::nullopt;
  return found;
}

}  // namespace

void cut_pass(Search& search) {
  auto sets = boundary_sets(search.segments());
  const auto affordable = kFamilyOperators / static_cast<size_t>(search.trace().ops() + 1);
  sets.resize(std::min(sets.size(), std::max(affordable, kFewestFamilies)));
  std::vector<Bracket> brackets;
  for (const auto& boundaries : sets) {
    if (auto found = bracket(search, boundaries)) brackets.push_back(*std::move(found));
  }
  std::stable_sort(brackets.begin(), brackets.end(),
                   [](const Bracket& a, const Bracket& b) { return a.cost.us < b.cost.us; });
  brackets.resize(std::min(brackets.size(), kPolished));
  for (const Bracket& found : brackets) {
    search.polish(found.under);
    if (!found.over.empty()) search.polish(found.over);
  }
}

}  // namespace remat::plan
