#include "remat/memory/ledger.h"

#include <algorithm>
#include <cstdint>
#include <pthread.h>

namespace remat::memory {

void Ledger::enter(void* data, std::size_t bytes) {
  auto& shard = shard_of(data);
  {
    const std::lock_guard lock(shard.mutex);
    shard.sizes[data] = bytes;
  }
  const auto live = live_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  raise(peak_, live);
  raise(window_peak_, live);
}

void Ledger::strike(void* data) {
  auto& shard = shard_of(data);
  const std::lock_guard lock(shard.mutex);
  const auto entry = shard.sizes.find(data);
  if (entry == shard.sizes.end()) {
    return;
  }
  live_.fetch_sub(entry->second, std::memory_order_relaxed);
  shard.sizes.erase(entry);
}

std::size_t Ledger::live_bytes() const { return live_.load(std::memory_order_relaxed); }

std::size_t Ledger::peak_bytes() const {
  // An allocation that raced with reset_peak() may have raised only the peak that was thrown away.
  return std::max(peak_.load(std::memory_order_relaxed), live_bytes());
}

void Ledger::reset_peak() { peak_.store(live_bytes(), std::memory_order_relaxed); }

std::size_t Ledger::take_window_peak() {
  const auto live = live_bytes();
  return std::max(window_peak_.exchange(live, std::memory_order_relaxed), live);
}

void Ledger::lock_all() {
  for (auto& shard : shards_) {
    shard.mutex.lock();
  }
}

void Ledger::unlock_all() {
  for (auto& shard : shards_) {
    shard.mutex.unlock();
  }
}

Ledger::Shard& Ledger::shard_of(void* data) {
  // Storages are aligned to 64 bytes and large ones to pages, so the low bits alone would put most
  // of them in one shard.
  const auto line = reinterpret_cast<std::uintptr_t>(data) >> 6U;
  return shards_[(line ^ (line >> 6U)) % shards_.size()];
}

void Ledger::raise(std::atomic<std::size_t>& peak, std::size_t live) {
  auto known = peak.load(std::memory_order_relaxed);
  while (known < live && !peak.compare_exchange_weak(known, live, std::memory_order_relaxed)) {
  }
}

Ledger& ledger() {
  static auto* const instance = [] {
    auto* created = new Ledger;
    pthread_atfork([] { ledger().lock_all(); }, [] { ledger().unlock_all(); },
                   [] { ledger().unlock_all(); });
    return created;
  }();
  return *instance;
}

}  // namespace remat::memory
