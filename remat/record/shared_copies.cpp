#include "remat/record/shared_copies.h"

#include <algorithm>

namespace remat::record {

c10::Storage SharedCopies::copy_of(const c10::Storage& storage, Span part) {
  const void* address = static_cast<const char*>(storage.data()) + part.begin;
  const auto known = by_address_.find(address);
  if (known != by_address_.end() && known->second.part == part) {
    auto copy = c10::Storage(known->second.storage.lock());
    // Another tensor may lie there by now: equal bytes are what matters.
    if (copy && same_bytes(copy, storage, part)) return copy;
  }
  auto copy = record::copy_of(storage, part);
  by_address_.insert_or_assign(
      address, Copy{part, c10::weak_intrusive_ptr<c10::StorageImpl>(copy.getWeakStorageImpl())});
  if (by_address_.size() >= forget_at_) forget_dead();
  return copy;
}

void SharedCopies::forget_dead() {
  for (auto entry = by_address_.begin(); entry != by_address_.end();) {
    entry = entry->second.storage.use_count() == 0 ? by_address_.erase(entry) : std::next(entry);
  }
  forget_at_ = std::max<size_t>(64, 2 * by_address_.size());
}

}  // namespace remat::record
