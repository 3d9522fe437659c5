#include "models/utf8.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include <utf8proc.h>

namespace remat::models::utf8 {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

const auto* as_bytes(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

/// The character at `at`, or -1; `length` gets its bytes.
utf8proc_int32_t decode_at(std::string_view text, size_t at, size_t& length) {
  utf8proc_int32_t character = -1;
  const auto rest = text.substr(at);
  const auto taken =
      utf8proc_iterate(as_bytes(rest), static_cast<utf8proc_ssize_t>(rest.size()), &character);
  length = taken > 0 ? static_cast<size_t>(taken) : 0;
  return taken > 0 ? character : -1;
}

/// How many bytes at `at` could begin a character, and are to be replaced together; at least 1.
/// (Unicode 15, table 3-7: only the second byte has limits that depend on the first.)
size_t broken_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t place) {
    return place < text.size() ? static_cast<unsigned char>(text[place]) : 0U;
  };
  const unsigned first = byte(at);
  const size_t whole = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 1;
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(at + 1) < low || byte(at + 1) > high) return 1;
  size_t length = 2;
  while (length < whole && byte(at + length) >= 0x80 && byte(at + length) <= 0xBF) ++length;
  return length;
}

}  // namespace

size_t length_at(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

std::string repaired(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    size_t length = 0;
    if (decode_at(bytes, at, length) >= 0) {
      text.append(bytes.substr(at, length));
    } else {
      length = broken_length(bytes, at);
      text.append(kReplacement);
    }
    at += length;
  }
  return text;
}

std::string normalized(std::string_view text, Form form) {
  constexpr auto kOptions =
      std::to_array<int>({UTF8PROC_COMPOSE, UTF8PROC_DECOMPOSE, UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                          UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT});
  const int options = kOptions.at(static_cast<size_t>(form)) | UTF8PROC_STABLE;
  utf8proc_uint8_t* result = nullptr;
  const auto length = utf8proc_map(as_bytes(text), static_cast<utf8proc_ssize_t>(text.size()),
                                   &result, static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(result, &std::free);
  if (length < 0) throw std::runtime_error(utf8proc_errmsg(length));
  return {reinterpret_cast<const char*>(owned.get()), static_cast<size_t>(length)};
}

bool is_space(std::string_view text, size_t at) {
  size_t length = 0;
  const auto character = decode_at(text, at, length);
  if ((character >= 0x09 && character <= 0x0D) || character == 0x85) return true;
  const auto category = utf8proc_category(character);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

std::string encoded(char32_t character) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes.data());
  return {reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length)};
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  if (from.empty()) return std::string(text);
  std::string result;
  size_t at = 0;
  for (size_t found = 0; (found = text.find(from, at)) != std::string_view::npos;
       at = found + from.size()) {
    result.append(text.substr(at, found - at)).append(to);
  }
  return result.append(text.substr(at));
}

}  // namespace remat::models::utf8
