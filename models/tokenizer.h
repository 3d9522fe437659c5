#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Text to tokens and back by tokenizer.json, for prompts and samples. Training data is tokenized
/// by `python -m remat.prepare`, with Hugging Face's own library.
namespace remat::models {

/// Byte pair encoding (Sennrich et al. 2016, arXiv 1508.07909) as the supported families use it:
/// over bytes (Llama 3, SmolLM2, Qwen, newer Mistral) or over characters with bytes as a fallback
/// (Llama 2, older Mistral). Immutable: may be used from several threads.
class Tokenizer {
 public:
  /// Reads tokenizer.json of the folder. Throws Error, naming the part, on one that has a
  /// normalizer, pre-tokenizer, model, post-processor or decoder not supported here.
  explicit Tokenizer(const std::filesystem::path& folder);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// The text must be UTF-8; other bytes become U+FFFD. Names of special tokens in it become those
  /// tokens. `add_special`: as the post-processor says, for example a first <|begin_of_text|>.
  [[nodiscard]] std::vector<int64_t> encode(std::string_view given, bool add_special = true) const;

  /// Bytes that are no UTF-8, as of half a character, become U+FFFD. Ids that are not in the
  /// vocabulary are left out, and with `skip_special` special tokens are.
  [[nodiscard]] std::string decode(std::span<const int64_t> ids, bool skip_special = true) const;

  /// One more than the largest id.
  [[nodiscard]] int64_t size() const;

 private:
  struct Parts;
  class Reader;
  std::unique_ptr<const Parts> parts_;
};

}  // namespace remat::models
