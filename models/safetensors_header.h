#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// The header of a safetensors file, as bytes and as a value. Free of libtorch, so that it can be
/// fuzzed alone.
namespace remat::models::safetensors {

/// In the order of the reference implementation, by which its writer sorts.
enum class Dtype : uint8_t { bool_, u8, i8, i16, f16, bf16, i32, f32, f64, i64 };

/// "BF16", "I64": as headers spell it.
std::string_view name_of(Dtype dtype);
int64_t bytes_of(Dtype dtype);

/// Invariant: end - begin is the product of shape times bytes_of(dtype).
struct Entry {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> shape;  ///< empty: a scalar
  uint64_t begin = 0;          ///< bytes from the start of the data
  uint64_t end = 0;
};

struct Header {
  /// Invariant: ordered by begin, without holes or overlaps, the first at 0.
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
  uint64_t data_begin = 0;  ///< bytes from the start of the file
};

/// A longer header is refused, as by the reference implementation: a small file must not claim
/// memory that it does not have.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr uint64_t kLengthBytes = 8;

/// The length that the first kLengthBytes of a file give the JSON after them. Throws Error, naming
/// `file`, where it is too large for the format or for a file of `file_bytes`.
uint64_t header_length(std::string_view first_bytes, uint64_t file_bytes, const std::string& file);

/// Checks and parses the JSON of a header. Strict: whatever the format forbids is an Error that
/// names `file`, the tensor and the cause.
Header parse_header(std::string_view text, uint64_t file_bytes, const std::string& file);

/// The first bytes of a file, length and padded JSON, for entries laid out from 0 on.
std::string format_header(const Header& header);

/// Puts entries into the order of the reference writer (widest dtype first, then by name) and lays
/// them out without holes.
void lay_out(std::vector<Entry>& entries);

}  // namespace remat::models::safetensors
