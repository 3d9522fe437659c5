#include "remat/memory/counting_allocator.h"

#include <c10/util/Exception.h>

#include "remat/memory/ledger.h"

namespace remat::memory {
namespace {

// Set before the first allocation and never again.
c10::DeleterFnPtr wrapped_deleter = nullptr;

void release(void* data) {
  // Struck out first: once it is freed, another thread may be handed the same address and enter it.
  ledger().strike(data);
  wrapped_deleter(data);
}

}  // namespace

CountingAllocator::CountingAllocator(c10::Allocator& wrapped) : wrapped_(wrapped) {
  TORCH_CHECK(wrapped.raw_deleter() != nullptr,
              "remat::memory::install: the CPU allocator in place has no raw deleter, so its "
              "allocations cannot be told by their address. Call install() before it is set.");
  wrapped_deleter = wrapped.raw_deleter();
}

c10::DataPtr CountingAllocator::allocate(std::size_t bytes) {
  auto data = wrapped_.allocate(bytes);
  TORCH_INTERNAL_ASSERT(data.compare_exchange_deleter(wrapped_deleter, &release));
  if (data.get() != nullptr) {  // null for zero bytes: no address to enter, nothing to release
    ledger().enter(data.get(), bytes);
  }
  return data;
}

c10::DeleterFnPtr CountingAllocator::raw_deleter() const { return &release; }

void CountingAllocator::copy_data(void* to, const void* from, std::size_t bytes) const {
  wrapped_.copy_data(to, from, bytes);
}

bool is_counting_deleter(c10::DeleterFnPtr deleter) { return deleter == &release; }

}  // namespace remat::memory
