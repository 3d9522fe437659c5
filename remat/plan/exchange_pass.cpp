#include "remat/plan/exchange.h"
#include "remat/plan/passes.h"

namespace remat::plan {

void exchange_pass(Search& search) {
  constexpr int64_t kWork = 800'000;
  const auto& best = search.cheapest_keep_set();
  if (!best) return;
  KeepTimeline timeline(search.trace(), *best->keep);
  exchange(timeline, search.trace(), search.budget(), kWork);
  search.offer(timeline.keep());
}

}  // namespace remat::plan
