#include "remat/memory/block_allocator.h"

#include <cstdint>
#include <cstdlib>

#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

namespace remat::memory {
namespace {

/// Where the heap's block begins is written before the aligned address: free() wants it back.
void*& beginning_of(void* data) { return static_cast<void**>(data)[-1]; }

/// nullptr where there is not enough memory.
void* take(std::size_t bytes) {
  if (bytes > SIZE_MAX - c10::gAlignment) return nullptr;
  void* block = std::malloc(bytes + c10::gAlignment);
  if (block == nullptr) return nullptr;
  // malloc aligns to 16 bytes, so that at least as many lie between the block and the tensor.
  const auto behind = reinterpret_cast<std::uintptr_t>(block) + c10::gAlignment;
  void* data = reinterpret_cast<void*>(behind - behind % c10::gAlignment);
  beginning_of(data) = block;
  return data;
}

void release(void* data) {
  if (data == nullptr) return;
  c10::profiledCPUMemoryReporter().Delete(data);
  std::free(beginning_of(data));
}

}  // namespace

c10::DataPtr BlockAllocator::allocate(std::size_t bytes) {
  void* data = bytes == 0 ? nullptr : take(bytes);
  if (bytes != 0 && data == nullptr) {
    c10::profiledCPUMemoryReporter().OutOfMemory(bytes);
    c10::free_cpu(c10::alloc_cpu(bytes));  // raises c10's own error, which says how much was wanted
    TORCH_CHECK(false, "remat: not enough memory for a tensor of ", bytes, " bytes");
  }
  c10::profiledCPUMemoryReporter().New(data, bytes);
  return {data, data, &release, c10::Device(c10::kCPU)};
}

c10::DeleterFnPtr BlockAllocator::raw_deleter() const { return &release; }

void BlockAllocator::copy_data(void* to, const void* from, std::size_t bytes) const {
  default_copy_data(to, from, bytes);
}

}  // namespace remat::memory
