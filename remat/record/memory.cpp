#include "remat/record/memory.h"

#include <cstring>
#include <utility>

namespace remat::record {

namespace {

/// Which counter it is. c10 compares counts only, so the one pointer that a VariableVersion
/// consists of is read.
const void* identity_of(const c10::VariableVersion& counter) {
  static_assert(sizeof(c10::VariableVersion) == sizeof(void*));
  const void* pointer = nullptr;
  std::memcpy(&pointer, &counter, sizeof(pointer));
  return pointer;
}

}  // namespace

bool Memory::counters_hold() const {
  for (const Witness& known : witnesses) {
    if (known.counter.current_version() != known.expected) return false;
  }
  return true;
}

bool Memory::is_intact(const c10::StorageImpl& at) const {
  return at.data() == data && at.nbytes() == bytes && counters_hold();
}

void Memory::refresh(const c10::StorageImpl& at) {
  data = at.data();
  bytes = at.nbytes();
  for (Witness& known : witnesses) known.expected = known.counter.current_version();
}

void Memory::let_go() {
  storage.reset();
  witnesses.clear();
  birth.reset();
  told.reset();
}

bool Memory::witness(const at::Tensor& tensor) {
  const auto& counter = tensor.unsafeGetTensorImpl()->version_counter();
  if (!counter.enabled()) return true;  // inference tensors count nothing
  for (Witness& known : witnesses) {
    if (identity_of(known.counter) != identity_of(counter)) continue;
    const uint32_t now = counter.current_version();
    if (known.expected + 1 == now && std::exchange(count_is_due, false)) known.expected = now;
    return known.expected == now;
  }
  witnesses.push_back({counter, counter.current_version()});
  return true;
}

const c10::VariableVersion& Memory::watched_counter() {
  if (witnesses.empty()) witnesses.push_back({c10::VariableVersion(0), 0});
  return witnesses.front().counter;
}

}  // namespace remat::record
