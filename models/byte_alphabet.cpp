#include "models/byte_alphabet.h"

#include <unordered_map>

#include "models/utf8.h"

namespace remat::models::byte_alphabet {

namespace {

bool is_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::unordered_map<std::string, char> make_alphabet() {
  std::unordered_map<std::string, char> alphabet;
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t character = is_itself(byte) ? byte : next++;
    alphabet[utf8::encoded(character)] = static_cast<char>(byte);
  }
  return alphabet;
}

}  // namespace

std::optional<std::string> to_bytes(std::string_view token) {
  static const auto alphabet = make_alphabet();
  std::string bytes;
  for (size_t at = 0, length = 0; at < token.size(); at += length) {
    length = utf8::length_at(token, at);
    const auto found = alphabet.find(std::string(token.substr(at, length)));
    if (found == alphabet.end()) return std::nullopt;
    bytes += found->second;
  }
  return bytes;
}

}  // namespace remat::models::byte_alphabet
