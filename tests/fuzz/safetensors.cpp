// Any bytes are refused with an Error, or are a header whose invariants hold and which survives
// being written and read again.

#include <cstdlib>
#include <string_view>

#include "models/error.h"
#include "models/safetensors_header.h"

namespace {

using namespace remat::models::safetensors;

void require(bool holds) {
  if (!holds) std::abort();
}

Header read(std::string_view file) {
  const auto length = header_length(file.substr(0, kLengthBytes), file.size(), "fuzzed");
  return parse_header(file.substr(kLengthBytes, length), file.size(), "fuzzed");
}

void check_invariants(const Header& header, size_t file_bytes) {
  uint64_t next = 0;
  for (const auto& entry : header.entries) {
    require(entry.begin == next && entry.end >= entry.begin);
    auto bytes = static_cast<uint64_t>(bytes_of(entry.dtype));
    for (const int64_t extent : entry.shape) bytes *= static_cast<uint64_t>(extent);
    require(entry.end - entry.begin == bytes);
    next = entry.end;
  }
  require(header.data_begin + next == file_bytes);
}

void check_round_trip(Header header) {
  lay_out(header.entries);
  auto file = format_header(header);
  file.resize(file.size() + (header.entries.empty() ? 0 : header.entries.back().end));
  const auto again = read(file);
  require(again.metadata == header.metadata && again.entries.size() == header.entries.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  try {
    const auto header = read(file);
    check_invariants(header, size);
    check_round_trip(header);
  } catch (const remat::models::Error&) {
    // What a bad file has to lead to.
  }
  return 0;
}
