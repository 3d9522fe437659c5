#include "remat/gather.h"
#include "remat/record/gather.h"
#include "remat/record/operator.h"
#include "remat/replayable.h"

namespace remat {

uint64_t add_gather(Gather gather) { return record::add_gather(std::move(gather)); }

void remove_gather(uint64_t id) { record::remove_gather(id); }

void declare_replayable(const std::string& name) { record::Operator::declare_replayable(name); }

}  // namespace remat
