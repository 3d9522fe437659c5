#pragma once

#include <cstdint>
#include <string>
#include <string_view>

/// UTF-8 text. `valid` means: no half characters, no surrogates, nothing above U+10FFFF.
namespace remat::models::utf8 {

enum class Form : uint8_t { nfc, nfd, nfkc, nfkd };

/// Bytes of the character that begins at `at` of a valid text.
size_t length_at(std::string_view text, size_t at);

/// The text with U+FFFD for every longest piece of bytes that begins no character, as Unicode
/// recommends and Rust and Python do.
std::string repaired(std::string_view bytes);

/// Unicode normalization of a valid text.
std::string normalized(std::string_view text, Form form);

/// True iff the character of a valid text at `at` is white space.
bool is_space(std::string_view text, size_t at);

/// The character as UTF-8.
std::string encoded(char32_t character);

/// Replaces every `from` by `to`.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

}  // namespace remat::models::utf8
