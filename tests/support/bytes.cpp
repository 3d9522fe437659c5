#include "tests/support/bytes.h"

#include "remat/memory/memory.h"

namespace remat::testing {

namespace {

int64_t counted_live() {
  memory::install();
  memory::reset_peak();
  return static_cast<int64_t>(memory::live_bytes());
}

}  // namespace

Bytes::Bytes() : before_(counted_live()) {}

int64_t Bytes::live() const { return static_cast<int64_t>(memory::live_bytes()) - before_; }

int64_t Bytes::peak() const { return static_cast<int64_t>(memory::peak_bytes()) - before_; }

void Bytes::reset_peak() { memory::reset_peak(); }

}  // namespace remat::testing
