#include "models/safetensors_header.h"

#include <cstring>

#include <gtest/gtest.h>

#include "tests/models/error_of.h"

namespace remat::models::safetensors {
namespace {

/// Parses the header of a file with that much data behind it.
Header parse(const std::string& json, uint64_t data_bytes) {
  return parse_header(json, kLengthBytes + json.size() + data_bytes, "some.safetensors");
}

std::string eight_bytes(uint64_t length) {
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes;
}

// ---- What the format forbids
// ---------------------------------------------------------------------

struct Attack {
  const char* name;
  std::string json;
  uint64_t data_bytes;
  const char* cause;
};

void PrintTo(const Attack& attack, std::ostream* out) { *out << attack.name; }

class AttackTest : public ::testing::TestWithParam<Attack> {};

TEST_P(AttackTest, IsRefusedWithFileAndCause) {
  const auto& attack = GetParam();
  const auto error = error_of([&] { parse(attack.json, attack.data_bytes); });
  EXPECT_TRUE(error.starts_with("some.safetensors: ")) << error;
  EXPECT_TRUE(says(error, attack.cause));
}

INSTANTIATE_TEST_SUITE_P(
    Structure, AttackTest,
    ::testing::Values(
        Attack{"empty", "", 0, "must begin with '{'"},
        Attack{"leading space", " {}", 0, "must begin with '{'"},
        Attack{"no object", "[1]", 0, "must begin with '{'"},
        Attack{"no JSON", "{", 0, "is no JSON"}, Attack{"text behind", "{}x", 0, "is no JSON"},
        Attack{"two objects", "{}{}", 0, "is no JSON"},
        Attack{"a zero byte", std::string("{}\0", 3), 0, "is no JSON"},
        Attack{"no UTF-8", "{\"\xff\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0,
               "is no JSON"},
        Attack{"a name twice",
               R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
               R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
               1, "names \"a\" twice"},
        Attack{"a field twice",
               R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
               "names \"dtype\" twice"},
        Attack{"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0,
               "names \"__metadata__\" twice"},
        Attack{"deep nesting",
               "{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0,
               "nested too deeply"},
        Attack{"metadata not an object", R"({"__metadata__":[]})", 0, "an object of strings"},
        Attack{"metadata not text", R"({"__metadata__":{"a":1}})", 0, "\"a\" must be a string"},
        Attack{"tensor not an object", R"({"a":1})", 0, "tensor \"a\": must be an object"},
        Attack{"an unknown field",
               R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"code":"x"}})", 1,
               "has \"code\""}));

INSTANTIATE_TEST_SUITE_P(
    Tensor, AttackTest,
    ::testing::Values(
        Attack{"no dtype", R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1,
               "tensor \"a\": has no dtype"},
        Attack{"no shape", R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1, "has no shape"},
        Attack{"no offsets", R"({"a":{"dtype":"U8","shape":[1]}})", 1, "has no data_offsets"},
        Attack{"unknown dtype", R"({"a":{"dtype":"F3","shape":[1],"data_offsets":[0,1]}})", 1,
               "dtype \"F3\"; supported are BOOL"},
        Attack{"dtype not text", R"({"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", 1,
               "dtype must be a string"},
        Attack{"negative extent", R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1,
               "shape must hold integers from 0 to 2^63 - 1, not -1"},
        Attack{"fraction", R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1,
               "not 1.0"},
        Attack{"extent beyond 63 bits",
               R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]}})", 1,
               "not 9223372036854775808"},
        Attack{"product overflows",
               R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
               "exceed 64 bits"},
        Attack{"overflow hidden by a zero",
               R"({"a":{"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})", 0,
               "exceed 64 bits"},
        Attack{"three offsets", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}})", 1,
               "two numbers"},
        Attack{"offsets turned round", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})",
               1, "end before they begin"},
        Attack{"size and offsets differ",
               R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
               "span 4 bytes, its shape and dtype need 8"}));

INSTANTIATE_TEST_SUITE_P(
    Layout, AttackTest,
    ::testing::Values(
        Attack{"hole at the start", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2,
               "holes between tensors"},
        Attack{"hole between",
               R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
               R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
               3, "tensor \"b\": begins at byte 2"},
        Attack{"overlap",
               R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
               R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
               3, "overlaps between tensors"},
        Attack{"the same bytes for two",
               R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
               R"("b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
               2, "overlaps between tensors"},
        Attack{"beyond the file", R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", 8,
               "ends at byte 9 of the data, of which the file has 8"},
        Attack{"bytes behind the last", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
               2, "has 2 bytes of data, but its tensors end at byte 1"},
        Attack{"data without tensors", "{}", 1, "has 1 bytes of data"}));

TEST(HeaderLengthTest, AShortFileIsRefused) {
  EXPECT_TRUE(says(error_of([] { header_length("1234567", 7, "f"); }), "the file has 7 bytes"));
}

TEST(HeaderLengthTest, ALengthBeyondTheFileIsRefused) {
  EXPECT_TRUE(says(error_of([] { header_length(eight_bytes(3), 10, "f"); }),
                   "claims 3 bytes, but the file has 10"));
}

TEST(HeaderLengthTest, AHugeLengthIsRefusedBeforeMemoryIsTaken) {
  EXPECT_TRUE(says(error_of([] { header_length(eight_bytes(UINT64_MAX), UINT64_MAX, "f"); }),
                   "more than the 100000000 allowed"));
}

// ---- What it allows
// ------------------------------------------------------------------------------

TEST(HeaderTest, EntriesComeInTheOrderOfTheirBytes) {
  const auto header = parse(
      R"({"b":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]}}  )",
      20);
  ASSERT_EQ(header.entries.size(), 2);
  EXPECT_EQ(header.entries[0].name, "b");
  EXPECT_EQ(header.entries[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(HeaderTest, TensorsWithoutElementsTakeNoBytesAnywhere) {
  const auto header = parse(R"({"full":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                            R"("none":{"dtype":"F32","shape":[0,7],"data_offsets":[2,2]},)"
                            R"("zero":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
                            2);
  EXPECT_EQ(header.entries.size(), 3);
}

TEST(HeaderTest, AnEmptyFileHasNoTensors) { EXPECT_TRUE(parse("{}", 0).entries.empty()); }

TEST(HeaderTest, WhatIsFormattedParsesToTheSame) {
  Header header;
  header.metadata["note"] = "quote \" and \n and ä";
  header.entries = {{"byte", Dtype::u8, {3}}, {"wide", Dtype::f64, {2}}, {"also", Dtype::f64, {1}}};
  lay_out(header.entries);
  const auto bytes = format_header(header);
  ASSERT_EQ(bytes.size() % 8, 0);
  const auto length = header_length(bytes, bytes.size() + 27, "f");
  const auto again = parse_header(bytes.substr(kLengthBytes, length), bytes.size() + 27, "f");
  EXPECT_EQ(again.metadata, header.metadata);
  ASSERT_EQ(again.entries.size(), 3);
  EXPECT_EQ(again.entries[0].name, "also");
  EXPECT_EQ(again.entries[1].name, "wide");
  EXPECT_EQ(again.entries[2].begin, 24);
}

}  // namespace
}  // namespace remat::models::safetensors
