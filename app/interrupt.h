#pragma once

#include <atomic>

namespace remat::app {

/// While it lives, the first SIGINT, SIGTERM or SIGHUP sets a flag, and a second ends the process
/// at once, as it would have without.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  [[nodiscard]] const std::atomic<bool>& requested() const;
  /// 130 after SIGINT, 143 after the others, as shells report them.
  [[nodiscard]] int exit_code() const;
};

}  // namespace remat::app
