#pragma once

#include <cstdint>

namespace remat::testing {

/// Bytes of CPU tensors that are alive beyond those alive when it was made.
class Bytes {
 public:
  Bytes();
  [[nodiscard]] int64_t live() const;
  /// The most that were alive at once since it was made or reset_peak() was called.
  [[nodiscard]] int64_t peak() const;
  void reset_peak();

 private:
  int64_t before_;
};

}  // namespace remat::testing
