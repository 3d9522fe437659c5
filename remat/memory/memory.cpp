#include "remat/memory/memory.h"

#include <memory>

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include "remat/memory/block_allocator.h"
#include "remat/memory/counting_allocator.h"
#include "remat/memory/ledger.h"

namespace remat::memory {
namespace {

/// c10's own makes way for one that wastes less. One that a user has set is there for a reason.
c10::Allocator& allocator_to_count() {
  static auto& blocks = *new BlockAllocator;  // never destroyed: storages in statics outlive it
  c10::Allocator* in_place = c10::GetCPUAllocator();
  return in_place == c10::GetDefaultCPUAllocator() ? blocks : *in_place;
}

CountingAllocator* wrap_cpu_allocator() {
  auto counting = std::make_unique<CountingAllocator>(allocator_to_count());
  c10::SetCPUAllocator(counting.get());
  TORCH_CHECK(
      c10::GetCPUAllocator() == counting.get(),
      "remat::memory::install: c10 refused the counting allocator, because the CPU "
      "allocator in place was set with a priority above 0. Call install() before it is set.");
  ledger();  // made now: a fork() while another thread makes it would leave the child waiting
  return counting.release();  // c10 and every storage refer to it until the process ends
}

}  // namespace

void install() { [[maybe_unused]] static const auto* counting = wrap_cpu_allocator(); }

bool is_installed() { return is_counting_deleter(c10::GetCPUAllocator()->raw_deleter()); }

std::size_t live_bytes() { return ledger().live_bytes(); }

std::size_t peak_bytes() { return ledger().peak_bytes(); }

void reset_peak() { ledger().reset_peak(); }

bool is_allocator_deleter(c10::DeleterFnPtr deleter) {
  static const auto default_deleter = c10::GetDefaultCPUAllocator()->raw_deleter();
  return deleter == default_deleter || is_counting_deleter(deleter) ||
         deleter == c10::GetCPUAllocator()->raw_deleter();
}

}  // namespace remat::memory
