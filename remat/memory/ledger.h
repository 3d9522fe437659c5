#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

#include <c10/util/flat_hash_map.h>

namespace remat::memory {

/// The allocations that are alive, with their sizes, and the totals over them. Sizes are kept
/// beside the memory, not in it, so that addresses and sizes stay those of the wrapped allocator.
class Ledger {
 public:
  Ledger() = default;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// REQUIRES: `data` is not entered.
  void enter(void* data, std::size_t bytes);

  /// Does nothing for an address that was never entered.
  void strike(void* data);

  [[nodiscard]] std::size_t live_bytes() const;
  [[nodiscard]] std::size_t peak_bytes() const;
  void reset_peak();
  /// The peak since the last call of this function. Independent of reset_peak(), which is the
  /// user's.
  std::size_t take_window_peak();

  /// For fork(): a lock held by another thread at that moment would stay locked in the child.
  void lock_all();
  void unlock_all();

 private:
  /// Threads seldom meet: addresses are spread over shards, each under its own lock.
  struct alignas(64) Shard {
    std::mutex mutex;
    ska::flat_hash_map<void*, std::size_t> sizes;  // protected by mutex
  };

  Shard& shard_of(void* data);
  static void raise(std::atomic<std::size_t>& peak, std::size_t live);

  std::array<Shard, 16> shards_;
  std::atomic<std::size_t> live_{0};
  std::atomic<std::size_t> peak_{0};
  std::atomic<std::size_t> window_peak_{0};
};

/// The ledger of this process. Never destroyed: storages in statics are struck out during shutdown.
Ledger& ledger();

}  // namespace remat::memory
