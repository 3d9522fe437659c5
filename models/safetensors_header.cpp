#include "models/safetensors_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/error.h"

namespace remat::models::safetensors {

using nlohmann::json;

// ---- Dtypes
// --------------------------------------------------------------------------------------

namespace {

struct DtypeFacts {
  Dtype dtype;
  std::string_view name;
  int64_t bytes;
};

constexpr auto kDtypes = std::to_array<DtypeFacts>({
    {Dtype::bool_, "BOOL", 1},
    {Dtype::u8, "U8", 1},
    {Dtype::i8, "I8", 1},
    {Dtype::i16, "I16", 2},
    {Dtype::f16, "F16", 2},
    {Dtype::bf16, "BF16", 2},
    {Dtype::i32, "I32", 4},
    {Dtype::f32, "F32", 4},
    {Dtype::f64, "F64", 8},
    {Dtype::i64, "I64", 8},
});

std::string dtype_names() {
  std::string names;
  for (const auto& facts : kDtypes) names += (names.empty() ? "" : ", ") + std::string(facts.name);
  return names;
}

}  // namespace

std::string_view name_of(Dtype dtype) { return kDtypes.at(static_cast<size_t>(dtype)).name; }

int64_t bytes_of(Dtype dtype) { return kDtypes.at(static_cast<size_t>(dtype)).bytes; }

// ---- Parse
// ---------------------------------------------------------------------------------------

namespace {

constexpr const char* kMetadata = "__metadata__";
constexpr std::string_view kDownloadAgain = "; the file is damaged or cut short: fetch it again";

std::string tensor(const std::string& name) { return fmt::format("tensor \"{}\"", name); }

/// JSON with what the grammar of a header forbids taken out while it is read: a name given twice,
/// of which JSON libraries silently take the last, and nesting deeper than any header's.
json parse_json(std::string_view text, const std::string& file) {
  constexpr int kDeepest = 3;  // file, tensor, shape
  // The parser takes a zero byte for the end of the text, and would overlook what is behind it.
  if (text.find('\0') != std::string_view::npos) {
    throw Error(file, "header", fmt::format("is no JSON: it has a zero byte{}", kDownloadAgain));
  }
  std::array<std::set<std::string>, kDeepest + 1> names;
  const auto look = [&](int depth, json::parse_event_t event, json& parsed) {
    const bool opens =
        event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    if (opens && depth >= kDeepest) throw Error(file, "header", "is nested too deeply");
    if (event == json::parse_event_t::object_start) names.at(depth + 1).clear();
    if (event == json::parse_event_t::key &&
        !names.at(depth).insert(parsed.get<std::string>()).second) {
      throw Error(file, "header",
                  fmt::format("names \"{}\" twice", parsed.get_ref<const std::string&>()));
    }
    return true;
  };
  try {
    return json::parse(text, look);
  } catch (const json::exception& error) {
    throw Error(file, "header", fmt::format("is no JSON: {}{}", error.what(), kDownloadAgain));
  }
}

std::map<std::string, std::string> parse_metadata(const json& value, const std::string& file) {
  if (!value.is_object()) throw Error(file, kMetadata, "must be an object of strings");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      throw Error(file, kMetadata, fmt::format("value of \"{}\" must be a string", key));
    }
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

/// One tensor's entry. Holds what its errors name.
class EntryParser {
 public:
  EntryParser(const std::string& name, const json& value, const std::string& file)
      : name_(name), value_(value), file_(file) {}

  [[nodiscard]] Entry parse() const {
    if (!value_.is_object()) fail("must be an object of dtype, shape and data_offsets");
    for (const auto& [key, _] : value_.items()) {
      if (key != "dtype" && key != "shape" && key != "data_offsets") {
        fail(fmt::format("has \"{}\", which the format does not know", key));
      }
    }
    Entry entry;
    entry.name = name_;
    entry.dtype = dtype();
    for (const uint64_t extent : numbers("shape")) {
      entry.shape.push_back(static_cast<int64_t>(extent));
    }
    const auto offsets = numbers("data_offsets");
    if (offsets.size() != 2) fail("data_offsets must be two numbers, begin and end");
    entry.begin = offsets[0];
    entry.end = offsets[1];
    check_size(entry);
    return entry;
  }

 private:
  [[noreturn]] void fail(const std::string& cause) const {
    throw Error(file_, tensor(name_), cause);
  }

  [[nodiscard]] const json& field(const char* key) const {
    const auto found = value_.find(key);
    if (found == value_.end()) fail(fmt::format("has no {}", key));
    return *found;
  }

  [[nodiscard]] Dtype dtype() const {
    const auto& value = field("dtype");
    if (!value.is_string()) fail("dtype must be a string");
    const auto& name = value.get_ref<const std::string&>();
    for (const auto& facts : kDtypes) {
      if (facts.name == name) return facts.dtype;
    }
    fail(fmt::format("has dtype \"{}\"; supported are {}", name, dtype_names()));
  }

  [[nodiscard]] std::vector<uint64_t> numbers(const char* key) const {
    const auto& value = field(key);
    if (!value.is_array()) fail(fmt::format("{} must be an array", key));
    std::vector<uint64_t> numbers;
    for (const auto& number : value) {
      // Below 2^63: tensors count in signed 64-bit integers.
      if (!number.is_number_unsigned() || number.get<uint64_t>() > INT64_MAX) {
        fail(fmt::format("{} must hold integers from 0 to 2^63 - 1, not {}", key, number.dump()));
      }
      numbers.push_back(number.get<uint64_t>());
    }
    return numbers;
  }

  void check_size(const Entry& entry) const {
    auto bytes = static_cast<int64_t>(bytes_of(entry.dtype));
    // An extent of 0 would hide that the product of the others overflows.
    int64_t strides = bytes;
    for (const int64_t extent : entry.shape) {
      if (__builtin_mul_overflow(bytes, extent, &bytes) ||
          __builtin_mul_overflow(strides, std::max<int64_t>(extent, 1), &strides)) {
        fail("has a shape whose bytes exceed 64 bits");
      }
    }
    if (entry.begin > entry.end) fail("data_offsets end before they begin");
    if (entry.end - entry.begin != static_cast<uint64_t>(bytes)) {
      fail(fmt::format("its data_offsets span {} bytes, its shape and dtype need {}",
                       entry.end - entry.begin, bytes));
    }
  }

  const std::string& name_;
  const json& value_;
  const std::string& file_;
};

/// Tensors must fill the data without holes or overlaps: bytes that belong to none could hide
/// anything, and bytes that belong to many make a small file claim much memory.
void check_layout(const std::vector<Entry>& entries, uint64_t data_bytes, const std::string& file) {
  uint64_t expected = 0;
  for (const auto& entry : entries) {
    if (entry.begin != expected) {
      throw Error(
          file, tensor(entry.name),
          fmt::format("begins at byte {} of the data, but the tensor before it ends at {}: "
                      "{} between tensors are not allowed",
                      entry.begin, expected, entry.begin > expected ? "holes" : "overlaps"));
    }
    expected = entry.end;
    if (entry.end > data_bytes) {
      throw Error(file, tensor(entry.name),
                  fmt::format("ends at byte {} of the data, of which the file has {}{}", entry.end,
                              data_bytes, kDownloadAgain));
    }
  }
  if (expected != data_bytes) {
    throw Error(file, "",
                fmt::format("has {} bytes of data, but its tensors end at byte {}{}", data_bytes,
                            expected, kDownloadAgain));
  }
}

}  // namespace

uint64_t header_length(std::string_view first_bytes, uint64_t file_bytes, const std::string& file) {
  static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");
  if (first_bytes.size() < kLengthBytes || file_bytes < kLengthBytes) {
    throw Error(file, "header",
                fmt::format("is too short: the file has {} bytes, of which 8 give the length{}",
                            file_bytes, kDownloadAgain));
  }
  uint64_t length = 0;
  std::memcpy(&length, first_bytes.data(), sizeof length);
  if (length > kMaxHeaderBytes) {
    throw Error(
        file, "header",
        fmt::format("claims {} bytes, more than the {} allowed; is this a safetensors file?",
                    length, kMaxHeaderBytes));
  }
  if (length > file_bytes - kLengthBytes) {
    throw Error(
        file, "header",
        fmt::format("claims {} bytes, but the file has {}{}", length, file_bytes, kDownloadAgain));
  }
  return length;
}

Header parse_header(std::string_view text, uint64_t file_bytes, const std::string& file) {
  if (!text.starts_with('{')) {
    throw Error(file, "header", "must begin with '{'; is this a safetensors file?");
  }
  const auto parsed = parse_json(text, file);
  Header header;
  for (const auto& [name, value] : parsed.items()) {
    if (name == kMetadata) {
      header.metadata = parse_metadata(value, file);
    } else {
      header.entries.push_back(EntryParser(name, value, file).parse());
    }
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  header.data_begin = kLengthBytes + text.size();
  check_layout(header.entries, file_bytes - header.data_begin, file);
  return header;
}

// ---- Format
// --------------------------------------------------------------------------------------

void lay_out(std::vector<Entry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(b.dtype, a.name) < std::tie(a.dtype, b.name);
  });
  uint64_t next = 0;
  for (auto& entry : entries) {
    auto bytes = static_cast<uint64_t>(bytes_of(entry.dtype));
    for (const int64_t extent : entry.shape) bytes *= static_cast<uint64_t>(extent);
    entry.begin = next;
    entry.end = next += bytes;
  }
}

std::string format_header(const Header& header) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json[kMetadata] = header.metadata;
  for (const auto& entry : header.entries) {
    nlohmann::ordered_json value;
    value["dtype"] = name_of(entry.dtype);
    value["shape"] = entry.shape;
    value["data_offsets"] = {entry.begin, entry.end};
    json[entry.name] = std::move(value);
  }
  auto text = json.dump();
  // Data then begins at a multiple of 8, so that a reader may map it as any dtype.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + text;
}

}  // namespace remat::models::safetensors
