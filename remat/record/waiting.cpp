#include "remat/record/waiting.h"

namespace remat::record {

namespace {

void (*wait_for)(std::recursive_mutex& mutex) = nullptr;

}  // namespace

std::unique_lock<std::recursive_mutex> lock_patiently(std::recursive_mutex& mutex) {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (lock.owns_lock()) return lock;
  if (wait_for == nullptr) {
    lock.lock();
    return lock;
  }
  wait_for(mutex);
  return {mutex, std::adopt_lock};
}

void set_wait(void (*wait)(std::recursive_mutex& mutex)) { wait_for = wait; }

}  // namespace remat::record
