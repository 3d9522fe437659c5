#include "remat/policy/parse.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "remat/plan/budget.h"
#include "remat/policy/jax.h"
#include "remat/policy/rules.h"
#include "remat/policy/word.h"

namespace remat::policy {

namespace {

using Words = std::vector<std::string>;

/// A policy by its name: `plain`, or what makes it of what stands in the brackets.
struct Known {
  std::string_view name;
  const Policy& (*plain)() = nullptr;
  Policy (*of_words)(Words) = nullptr;
  Policy (*of_policies)(const Policy&, const Policy&) = nullptr;
};

int64_t bytes_of(const Words& words) {
  if (words.size() != 1) throw std::invalid_argument("it takes one size, such as 64KiB");
  return words[0] == "0" ? 0 : plan::parse_bytes(words[0]);
}

int64_t number_of(const Words& words) {
  if (words.size() != 1) throw std::invalid_argument("it takes one number");
  const auto& word = words[0];
  int64_t number = 0;
  const auto* end = word.data() + word.size();
  const auto [stopped, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc() || stopped != end)
    throw std::invalid_argument("\"" + word + "\" is no number");
  return number;
}

std::string without_prefix(std::string_view error) {
  constexpr std::string_view prefix = "remat: ";
  if (error.starts_with(prefix)) error.remove_prefix(prefix.size());
  return std::string(error);
}

constexpr Known kKnown[] = {
    {.name = "nothing_saveable", .plain = nothing_saveable},
    {.name = "everything_saveable", .plain = everything_saveable},
    {.name = "dots_saveable", .plain = dots_saveable},
    {.name = "dots_with_no_batch_dims_saveable", .plain = dots_with_no_batch_dims_saveable},
    {.name = "keep_ops", .of_words = keep_ops},
    {.name = "names", .of_words = names},
    {.name = "modules", .of_words = modules},
    {.name = "at_least", .of_words = [](Words words) { return at_least(bytes_of(words)); }},
    {.name = "at_most", .of_words = [](Words words) { return at_most(bytes_of(words)); }},
    {.name = "every", .of_words = [](Words words) { return every(number_of(words)); }},
    {.name = "checkpoint_dots", .plain = dots_saveable},
    {.name = "checkpoint_dots_with_no_batch_dims", .plain = dots_with_no_batch_dims_saveable},
    {.name = "save_only_these_names", .of_words = save_only_these_names},
    {.name = "save_any_names_but_these", .of_words = save_any_names_but_these},
    {.name = "save_anything_except_these_names", .of_words = save_anything_except_these_names},
    {.name = "save_from_both_policies", .of_policies = save_from_both_policies},
};

/// Reads a text from left to right; one function for each line of the grammar:
///
///     either = both { "|" both }
///     both   = minus { "&" minus }
///     minus  = whole { "-" whole }
///     whole  = "(" either ")" | name [ "(" words or policies ")" ]
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Policy all() {
    auto policy = either();
    if (!ends()) reject(at_, "expected |, & or -");
    return policy;
  }

 private:
  Policy either() {
    auto policy = both();
    while (take('|')) policy = policy | both();
    return policy;
  }

  Policy both() {
    auto policy = minus();
    while (take('&')) policy = policy & minus();
    return policy;
  }

  Policy minus() {
    auto policy = whole();
    while (take('-')) policy = policy - whole();
    return policy;
  }

  Policy whole() {
    if (take('(')) {
      auto policy = either();
      expect(')');
      return policy;
    }
    skip_spaces();
    const size_t start = at_;
    const auto name = bare();
    if (name.empty()) reject(start, "expected the name of a policy" + names_there_are());
    return named(name, start);
  }

  Policy named(std::string_view name, size_t start) {
    const auto* known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                     [&](const Known& entry) { return entry.name == name; });
    if (known == std::end(kKnown)) {
      refuse_offload(name);
      reject(start, "there is no policy named \"" + std::string(name) + "\"" + names_there_are());
    }
    if (known->plain != nullptr) return known->plain();
    expect('(');
    if (known->of_policies != nullptr) {
      const auto first = either();
      expect(',');
      const auto second = either();
      expect(')');
      return known->of_policies(first, second);
    }
    auto given = words();
    try {
      return known->of_words(std::move(given));
    } catch (const std::invalid_argument& error) {
      reject(start, without_prefix(error.what()));
    }
  }

  /// Up to the closing bracket.
  Words words() {
    Words given;
    if (take(')')) return given;
    do {
      given.push_back(word());
    } while (take(','));
    if (!take(')')) reject(at_, std::string("expected , or ); ") + kInQuotes);
    return given;
  }

  std::string word() {
    skip_spaces();
    const size_t start = at_;
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) return quoted();
    const auto found = bare();
    if (found.empty()) reject(start, std::string("expected a name; ") + kInQuotes);
    return std::string(found);
  }

  std::string quoted() {
    const size_t start = at_;
    const char quote = text_[at_++];
    std::string content;
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      content += text_[at_];
    }
    if (at_ == text_.size()) reject(start, "the quote is not closed");
    ++at_;
    return content;
  }

  std::string_view bare() {
    const size_t start = at_;
    while (at_ < text_.size() && is_bare(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool ends() {
    skip_spaces();
    return at_ == text_.size();
  }

  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!take(c)) reject(at_, std::string("expected ") + c);
  }

  [[noreturn]] void reject(size_t where, const std::string& why) const {
    throw std::invalid_argument("remat: in the policy \"" + std::string(text_) + "\" at column " +
                                std::to_string(where + 1) + ": " + why);
  }

  static std::string names_there_are() {
    std::string list;
    for (const std::string& name : known()) list += (list.empty() ? "" : ", ") + name;
    return ". The policies are " + list;
  }

  static constexpr auto kInQuotes =
      "names with other characters than letters, digits and _.:*?/ go in quotes";

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Policy parse(std::string_view text) { return Parser(text).all(); }

std::vector<std::string> known() {
  std::vector<std::string> list;
  for (const Known& entry : kKnown)
    list.push_back(std::string(entry.name) + (entry.plain == nullptr ? "(...)" : ""));
  return list;
}

}  // namespace remat::policy
