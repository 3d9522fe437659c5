#pragma once

#include <cstdint>
#include <string_view>

/// Amounts of memory as people write them.
namespace remat::plan {

/// Bytes of "6GiB", "6G" (the same), "6000MB" (10^6 each), "1.5 GiB" or "4096". Case does not
/// matter. Throws std::invalid_argument, with what would be right, for everything else.
int64_t parse_bytes(std::string_view text);

/// The same, or "80%" of `whole` bytes.
int64_t parse_budget(std::string_view text, int64_t whole);

}  // namespace remat::plan
