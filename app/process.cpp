#include "app/process.h"

#include <csignal>

#include "remat/memory/memory.h"

namespace remat::app {

void set_up_process() {
  // Both are then errors of the write, which say the file and the reason.
  std::signal(SIGPIPE, SIG_IGN);  // a pipe that nobody reads
  std::signal(SIGXFSZ, SIG_IGN);  // ulimit -f
  memory::install();
}

}  // namespace remat::app
