#pragma once

#include <cstdint>
#include <string_view>

namespace remat::plan {

/// FNV-1a, 64 bits: the same on every machine, as plans are saved and loaded elsewhere.
class Hash {
 public:
  void add(uint64_t word) {
    for (int shift = 0; shift < 64; shift += 8) add_byte(static_cast<uint8_t>(word >> shift));
  }
  void add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<uint8_t>(c));
    // Without an end "ab", "c" would be "a", "bc".
    add(static_cast<uint64_t>(text.size()));
  }
  [[nodiscard]] uint64_t value() const { return value_; }

 private:
  void add_byte(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3U; }
  uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace remat::plan
