#pragma once

#include <mutex>

namespace remat::record {

/// Locks a mutex that its owner may hold while Python runs. A thread that has to wait does so
/// without the interpreter's lock, for which the owner may wait in turn, in a gather hook or an
/// operator written in Python.
[[nodiscard]] std::unique_lock<std::recursive_mutex> lock_patiently(std::recursive_mutex& mutex);

/// Says how to wait for a mutex without the interpreter's lock. Set once, before the first region.
void set_wait(void (*wait)(std::recursive_mutex& mutex));

}  // namespace remat::record
