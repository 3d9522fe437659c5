#include "remat/plan/passes.h"

namespace remat::plan {

void greedy_pass(Search& search) {
  // A long way down: hundreds of toggles, of which the best few change slowly.
  search.polish(keep_all(search.trace()), {.refresh = 40, .work = 2'000'000});
}

}  // namespace remat::plan
