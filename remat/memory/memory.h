#pragma once

#include <cstddef>

#include <c10/util/UniqueVoidPtr.h>

/// Bytes of CPU tensors, which PyTorch itself does not count.
///
/// install() takes the place of c10's CPU allocator, or wraps another that was set; from then on
/// every storage that is handed out is counted, by the bytes that were asked for, from its
/// allocation to its release, and the memory of a freed one serves the next. Not counted: storages
/// older than install(), and memory that others own (from_blob, NumPy, mapped files, shared
/// memory). All functions may be called from any thread.
namespace remat::memory {

/// Starts counting; a second call does nothing. Counting cannot be stopped: storages carry its
/// deleter until they die. Throws c10::Error if the allocator in place cannot be wrapped.
///
/// REQUIRES: no other thread allocates during the first call (c10 reads the allocator unguarded).
void install();

/// True iff c10's CPU allocator is the counting one.
bool is_installed();

/// Bytes alive now; 0 before install().
std::size_t live_bytes();

/// The most bytes that were alive at once since reset_peak(), or since install().
std::size_t peak_bytes();

/// Makes the bytes alive now the peak.
void reset_peak();

/// True iff a storage with this deleter holds memory of a CPU allocator: c10's default, the
/// counting one, or the one in place. False means foreign memory, which its owner may write unseen.
bool is_allocator_deleter(c10::DeleterFnPtr deleter);

}  // namespace remat::memory
