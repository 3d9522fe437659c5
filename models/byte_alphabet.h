#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace remat::models::byte_alphabet {

/// The bytes that a token of a byte-level vocabulary stands for. Its strings spell every byte as a
/// printable character (GPT-2: printable Latin-1 as itself, the others from U+0100 on); nullopt
/// where a character is none of these.
std::optional<std::string> to_bytes(std::string_view token);

}  // namespace remat::models::byte_alphabet
