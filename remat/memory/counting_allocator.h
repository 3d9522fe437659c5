#pragma once

#include <cstddef>

#include <c10/core/Allocator.h>

namespace remat::memory {

/// Hands out the memory of another allocator and enters it in the ledger. The pointers are the
/// other allocator's own and context == data still holds, so nothing but the deleter tells the
/// difference: raw_allocate(), which oneDNN and others call, aborts on any other context.
///
/// REQUIRES: one instance a process, alive until its end: the deleter gets only the pointer, and
/// storages in statics call it during shutdown.
class CountingAllocator final : public c10::Allocator {
 public:
  /// Throws c10::Error if `wrapped` has no raw deleter, that is, if its contexts are not its data.
  explicit CountingAllocator(c10::Allocator& wrapped);

  c10::DataPtr allocate(std::size_t bytes) override;
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override;

 private:
  c10::Allocator& wrapped_;
};

bool is_counting_deleter(c10::DeleterFnPtr deleter);

}  // namespace remat::memory
