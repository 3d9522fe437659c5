#include "remat/plan/passes.h"

namespace remat::plan {

void plain_pass(Search& search) { search.offer(keep_all(search.trace())); }

}  // namespace remat::plan
