#include "models/added_tokens.h"

#include "models/utf8.h"

namespace remat::models {

namespace {

const AddedToken* longest_at(std::string_view rest, const std::vector<AddedToken>& tokens) {
  const AddedToken* longest = nullptr;
  for (const auto& token : tokens) {
    const bool longer = longest == nullptr || token.text.size() > longest->text.size();
    if (longer && !token.text.empty() && rest.starts_with(token.text)) longest = &token;
  }
  return longest;
}

/// The start of the white space that ends at `end`, not before `from`.
size_t spaces_before(std::string_view text, size_t from, size_t end) {
  size_t begin = end;
  while (begin > from) {
    size_t character = begin - 1;
    while (character > from && (static_cast<unsigned char>(text[character]) & 0xC0U) == 0x80U) {
      --character;
    }
    if (!utf8::is_space(text, character)) break;
    begin = character;
  }
  return begin;
}

size_t spaces_behind(std::string_view text, size_t at) {
  while (at < text.size() && utf8::is_space(text, at)) at += utf8::length_at(text, at);
  return at;
}

}  // namespace

void split_at_tokens(std::string_view text, const std::vector<AddedToken>& tokens,
                     const std::function<void(std::string_view)>& on_text,
                     const std::function<void(const AddedToken&)>& on_token) {
  size_t cut = 0;  // everything before has been handed out
  for (size_t at = 0; at < text.size();) {
    const auto* token = longest_at(text.substr(at), tokens);
    if (token == nullptr) {
      at += utf8::length_at(text, at);
      continue;
    }
    const size_t begin = token->lstrip ? spaces_before(text, cut, at) : at;
    if (begin > cut) on_text(text.substr(cut, begin - cut));
    on_token(*token);
    at += token->text.size();
    if (token->rstrip) at = spaces_behind(text, at);
    cut = at;
  }
  if (cut < text.size()) on_text(text.substr(cut));
}

}  // namespace remat::models
