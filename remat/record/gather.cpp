#include "remat/record/gather.h"

#include <map>
#include <mutex>
#include <vector>

#include "remat/record/fork.h"

namespace remat::record {

namespace {

struct Ways {
  std::mutex& mutex = immortal_mutex();
  uint64_t added = 0;
  std::map<uint64_t, Gather> by_id;
};

Ways& ways() {
  static auto& all = *new Ways;  // graphs in statics die after it would
  return all;
}

/// Copied, since a gather hook may add or remove others, and may wait for the interpreter.
std::vector<Gather> last_first() {
  const std::lock_guard lock(ways().mutex);
  std::vector<Gather> ordered;
  for (auto way = ways().by_id.rbegin(); way != ways().by_id.rend(); ++way)
    ordered.push_back(way->second);
  return ordered;
}

}  // namespace

uint64_t add_gather(Gather gather) {
  const std::lock_guard lock(ways().mutex);
  ways().by_id.emplace(++ways().added, std::move(gather));
  return ways().added;
}

void remove_gather(uint64_t id) {
  Gather removed;  // dies after the lock: it may hold a Python object
  const std::lock_guard lock(ways().mutex);
  const auto found = ways().by_id.find(id);
  if (found == ways().by_id.end()) return;
  removed = std::move(found->second);
  ways().by_id.erase(found);
}

bool has_gather() {
  const std::lock_guard lock(ways().mutex);
  return !ways().by_id.empty();
}

std::shared_ptr<void> gather(const at::Tensor& parameter) {
  for (const Gather& way : last_first()) {
    if (auto filled = way(parameter)) return filled;
  }
  return nullptr;
}

}  // namespace remat::record
