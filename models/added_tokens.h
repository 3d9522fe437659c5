#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace remat::models {

/// A token that is found in text before anything else looks at it, as <|im_end|> is.
struct AddedToken {
  std::string text;
  int64_t id = 0;
  bool special = false;     ///< no text of its own: decoding leaves it out
  bool normalized = false;  ///< found in the normalized text, not in the given one
  bool lstrip = false;      ///< takes the white space before it
  bool rstrip = false;      ///< and behind it
};

/// Walks through the text: calls `on_text` for what lies between tokens, never empty, and
/// `on_token` for each. Where several begin at one place, the longest is taken.
void split_at_tokens(std::string_view text, const std::vector<AddedToken>& tokens,
                     const std::function<void(std::string_view)>& on_text,
                     const std::function<void(const AddedToken&)>& on_token);

}  // namespace remat::models
