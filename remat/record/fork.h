#pragma once

#include <mutex>

namespace remat::record {

/// A mutex for static data: it lives for ever, since graphs in statics die after it would, and is
/// free in a forked child. There, a thread that has it at the moment of the fork (a DataLoader
/// starts its workers) does not exist to release it. REQUIRES: such mutexes are taken one at a
/// time.
std::mutex& immortal_mutex();

}  // namespace remat::record
