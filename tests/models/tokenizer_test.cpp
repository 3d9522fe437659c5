#include "models/tokenizer.h"

#include <gtest/gtest.h>

#include "models/bpe.h"
#include "models/splitter.h"
#include "models/utf8.h"
#include "tests/models/error_of.h"
#include "tests/support/temporary_folder.h"

namespace remat::models {
namespace {

using remat::testing::TemporaryFolder;

// Whole tokenizers are compared with Hugging Face's in tests/python/test_tokenizer_parity.py.

std::vector<std::string> split(const std::string& pattern, const std::string& text) {
  std::vector<std::string_view> pieces;
  Splitter(pattern).split(text, pieces);
  return {pieces.begin(), pieces.end()};
}

TEST(SplitterTest, MatchesAndGapsArePieces) {
  EXPECT_EQ(split("[0-9]", "a12b"), (std::vector<std::string>{"a", "1", "2", "b"}));
}

TEST(SplitterTest, EmptyMatchesEnd) {
  EXPECT_EQ(split("x*", "ab"), (std::vector<std::string>{"a", "b"}));
}

TEST(SplitterTest, APatternThatDoesNotCompileSaysWhere) {
  EXPECT_THROW(Splitter("a("), std::invalid_argument);
}

TEST(BpeTest, TheLowestRankIsJoinedFirstAndOfEqualsTheLeftmost) {
  Bpe bpe({});
  for (const auto* text : {"a", "b", "c", "bc", "ab", "aa"}) {
    bpe.add_token(text, *text + (text[1] ? 100 * text[1] : 0));
  }
  bpe.add_merge("b", "c");
  bpe.add_merge("a", "b");
  bpe.add_merge("a", "a");
  bpe.finish();
  std::vector<int64_t> tokens;
  bpe.encode("abcaaa", tokens);
  EXPECT_EQ(tokens, (std::vector<int64_t>{'a', 'b' + 100 * 'c', 'a' + 100 * 'a', 'a'}));
}

TEST(Utf8Test, BrokenBytesAreReplacedByTheLongestPiece) {
  const std::string replacement = "\xEF\xBF\xBD";
  EXPECT_EQ(utf8::repaired("a\xE2\x82z"), "a" + replacement + "z");  // half a character
  EXPECT_EQ(utf8::repaired("\xF0\x9F\x91"), replacement);            // at the end
  EXPECT_EQ(utf8::repaired("\xED\xA0\x80"), replacement + replacement + replacement);  // surrogate
  EXPECT_EQ(utf8::repaired("\xC0\x80"), replacement + replacement);                    // overlong
  EXPECT_EQ(utf8::repaired("ä👍"), "ä👍");
}

// ---- tokenizer.json
// ------------------------------------------------------------------------------

constexpr const char* kAlphabet = R"({"decoder": {"type": "ByteLevel"},
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
  "added_tokens": [{"id": 4, "content": "<e>", "special": true, "normalized": false}],
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "Ã": 3}, "merges": ["a b"]}})";

TEST(TokenizerTest, EncodesAndDecodes) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", kAlphabet);
  const Tokenizer tokenizer(folder.path());
  const auto ids = tokenizer.encode("ab<e>ba");
  EXPECT_EQ(ids, (std::vector<int64_t>{2, 4, 1, 0}));
  EXPECT_EQ(tokenizer.decode(ids), "abba");
  EXPECT_EQ(tokenizer.decode(ids, /*skip_special=*/false), "ab<e>ba");
  EXPECT_EQ(tokenizer.size(), 5);
}

TEST(TokenizerTest, HalfACharacterAndUnknownIdsDecodeToText) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", kAlphabet);
  const Tokenizer tokenizer(folder.path());
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{0, 3, 99, -1}), "a\xEF\xBF\xBD");
}

TEST(TokenizerTest, WhatIsNoTokenizerIsNamed) {
  const TemporaryFolder folder;
  const auto load = [&] { Tokenizer{folder.path()}; };
  EXPECT_TRUE(says(error_of(load), "tokenizer.json: cannot be opened"));
  folder.write("tokenizer.json", "{");
  EXPECT_TRUE(says(error_of(load), "is no tokenizer of Hugging Face"));
  folder.write("tokenizer.json", R"({"decoder": {"type": "ByteLevel"}, "model": {"vocab": {"a": 0},
    "merges": ["a b"]}})");
  EXPECT_TRUE(says(error_of(load), "model.merges: joins tokens that are not in the vocabulary"));
}

}  // namespace
}  // namespace remat::models
