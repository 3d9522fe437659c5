#pragma once

#include <string>
#include <string_view>

/// Names inside the brackets of a policy's text: bare, or in quotes.
namespace remat::policy {

/// True iff the character may stand in a bare name.
constexpr bool is_bare(char c) {
  constexpr std::string_view also = "_.:*?/";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         also.find(c) != std::string_view::npos;
}

/// The name as parse() reads it: in quotes where it has a character that a bare name may not have.
std::string quoted_if_needed(const std::string& name);

}  // namespace remat::policy
