#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace remat::models {

/// Byte pair encoding of one piece of text: starts from the smallest symbols, and joins the
/// neighbours whose merge has the lowest rank, the leftmost first, until none is left.
class Bpe {
 public:
  using Id = int32_t;

  /// What symbols a piece starts from.
  enum class Symbols : uint8_t {
    bytes,
    characters,  ///< and bytes, as tokens named <0x00>, or the unknown token, for unknown ones
  };

  struct Options {
    Symbols symbols = Symbols::bytes;
    bool byte_fallback = false;
    bool ignore_merges = false;  ///< a piece that is a token is taken whole
    bool fuse_unknown = false;   ///< unknown characters in a row are one unknown token
    std::optional<Id> unknown;
  };

  explicit Bpe(Options options) : options_(options) {}

  /// `text` is what the token stands for, in bytes.
  void add_token(std::string text, Id id) { ids_[std::move(text)] = id; }
  /// REQUIRES: the tokens of left, right and both together have been added. Called in order of
  /// rank.
  void add_merge(const std::string& left, const std::string& right);
  /// Looks up what encode() needs of single symbols. Called once, after all tokens.
  void finish();

  [[nodiscard]] std::optional<Id> find(const std::string& text) const;

  /// Appends the tokens of a piece.
  void encode(std::string_view piece, std::vector<int64_t>& tokens) const;

 private:
  struct Merge {
    int32_t rank;
    Id merged;
  };

  [[nodiscard]] std::vector<Id> smallest_symbols(std::string_view piece) const;
  void add_unknown(std::string_view character, std::vector<Id>& symbols) const;
  [[nodiscard]] const Merge* merge_of(Id left, Id right) const;
  void join(std::vector<Id>& symbols) const;

  Options options_;
  std::unordered_map<std::string, Id> ids_;
  std::unordered_map<uint64_t, Merge> merges_;  // by the pair of ids
  std::array<std::optional<Id>, 256> byte_ids_;
};

/// "<0x0A>", as tokens of single bytes are named where the symbols are characters.
std::string byte_name(unsigned char byte);

}  // namespace remat::models
