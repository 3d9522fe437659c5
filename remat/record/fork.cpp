#include "remat/record/fork.h"

#include <pthread.h>
#include <vector>

namespace remat::record {

namespace {

struct Guarded {
  std::mutex mutex;
  std::vector<std::mutex*> others;
};

Guarded& guarded() {
  static auto& all = *new Guarded;
  return all;
}

void lock_all() {
  guarded().mutex.lock();
  for (auto* other : guarded().others) other->lock();
}

void unlock_all() {
  for (auto* other : guarded().others) other->unlock();
  guarded().mutex.unlock();
}

}  // namespace

std::mutex& immortal_mutex() {
  static const int registered = pthread_atfork(lock_all, unlock_all, unlock_all);
  static_cast<void>(registered);
  auto& made = *new std::mutex;
  const std::lock_guard lock(guarded().mutex);
  guarded().others.push_back(&made);
  return made;
}

}  // namespace remat::record
