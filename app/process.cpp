#include "app/process.h"

#include <csignal>
#include <malloc.h>

#include "remat/memory/memory.h"

namespace remat::app {

void set_up_process() {
  // Both are then errors of the write, which say the file and the reason.
  std::signal(SIGPIPE, SIG_IGN);  // a pipe that nobody reads
  std::signal(SIGXFSZ, SIG_IGN);  // ulimit -f
  memory::install();
}

void return_memory_at_once() {
  // glibc raises its threshold to the size of freed blocks, and keeps smaller ones in the heap: on
  // SmolLM2 a fifth more memory was resident, and a step took a fifth less time.
  constexpr int kReturned = 64 << 10;
  mallopt(M_MMAP_THRESHOLD, kReturned);
  mallopt(M_TRIM_THRESHOLD, kReturned);
}

}  // namespace remat::app
