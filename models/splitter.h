#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace remat::models {

/// Cuts text where a pattern matches: every match and every gap between matches is a piece.
/// Immutable: may be used from several threads.
class Splitter {
 public:
  /// A pattern of Oniguruma's syntax, in which tokenizer.json is written, as far as PCRE2 agrees
  /// with it. Throws std::invalid_argument with the reason where it does not compile.
  explicit Splitter(const std::string& pattern);

  /// Appends the pieces of a valid UTF-8 text. They are views of it.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  std::shared_ptr<const void> code_;  // a pcre2_code
};

/// What GPT-2 splits by: contractions, letters, digits and the rest, each with the space before.
extern const char* const kGpt2Pattern;

}  // namespace remat::models
