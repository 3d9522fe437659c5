#include "models/splitter.h"

#include <array>
#include <stdexcept>

#include <pcre2.h>

namespace remat::models {

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

const auto* as_units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

Splitter::Splitter(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE place = 0;
  // UCP: \s and \p mean Unicode's, not ASCII's.
  auto* code = pcre2_compile(as_units(pattern), pattern.size(), PCRE2_UTF | PCRE2_UCP, &error,
                             &place, nullptr);
  if (code == nullptr) {
    throw std::invalid_argument(message_of(error) + " at character " + std::to_string(place));
  }
  code_ = std::shared_ptr<const void>(code, [](const void* owned) {
    pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(owned)));
  });
  // Without it, matching still works, only slower.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
}

void Splitter::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> found(
      pcre2_match_data_create_from_pattern(code, nullptr), &pcre2_match_data_free);
  size_t cut = 0;  // everything before is in pieces
  for (size_t at = 0; at < text.size();) {
    const int matched = pcre2_match(code, as_units(text), text.size(), at, PCRE2_NO_UTF_CHECK,
                                    found.get(), nullptr);
    if (matched == PCRE2_ERROR_NOMATCH) break;
    if (matched < 0) {
      throw std::runtime_error("models: text cannot be split: " + message_of(matched));
    }
    const auto* ends = pcre2_get_ovector_pointer(found.get());
    const size_t begin = ends[0];
    const size_t end = ends[1];
    if (begin > cut) pieces.push_back(text.substr(cut, begin - cut));
    if (end > begin) pieces.push_back(text.substr(begin, end - begin));
    cut = end;
    at = end > begin ? end : end + 1;  // an empty match must not be found for ever
  }
  if (cut < text.size()) pieces.push_back(text.substr(cut));
}

}  // namespace remat::models
