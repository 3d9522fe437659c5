#include "models/config.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/models/error_of.h"

namespace remat::models {
namespace {

using nlohmann::json;

/// A small configuration of the family, with `changes` merged in; null removes nothing.
json config_json(const char* family, const json& changes = json::object()) {
  json config = {
      {"model_type", family},     {"vocab_size", 96},       {"hidden_size", 32},
      {"intermediate_size", 64},  {"num_hidden_layers", 3}, {"num_attention_heads", 4},
      {"num_key_value_heads", 2}, {"rms_norm_eps", 1e-5},   {"tie_word_embeddings", true}};
  config.update(changes);
  return config;
}

Config parse(const char* family, const json& changes = json::object()) {
  return parse_config(config_json(family, changes).dump(), "config.json");
}

std::vector<int64_t> windows(int64_t first, int64_t second, int64_t third) {
  return {first, second, third};
}

// ---- Families
// ------------------------------------------------------------------------------------

TEST(ConfigTest, DefaultsAreThoseOfTransformers) {
  const auto config = parse("llama", {{"num_key_value_heads", nullptr}});
  EXPECT_EQ(config.num_key_value_heads, 4);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.rope.theta, 10'000.0);
  EXPECT_EQ(config.dtype, "float32");
  EXPECT_EQ(parse("qwen3").head_dim, 128);
}

TEST(ConfigTest, BiasesAreWhereTheFamilyHasThem) {
  const auto llama = parse("llama", {{"attention_bias", true}, {"mlp_bias", true}});
  EXPECT_TRUE(llama.qkv_bias && llama.o_bias && llama.mlp_bias);
  const auto qwen2 = parse("qwen2");
  EXPECT_TRUE(qwen2.qkv_bias && !qwen2.o_bias && !qwen2.mlp_bias);
  const auto qwen3 = parse("qwen3");
  EXPECT_TRUE(qwen3.qk_norm && !qwen3.qkv_bias);
}

TEST(ConfigTest, EveryLayerOfMistralSlides) {
  EXPECT_EQ(parse("mistral", {{"sliding_window", 7}}).sliding_window, windows(7, 7, 7));
  EXPECT_EQ(parse("mistral", {{"sliding_window", nullptr}}).sliding_window, windows(0, 0, 0));
  EXPECT_EQ(parse("mistral").sliding_window, windows(4096, 4096, 4096));
}

TEST(ConfigTest, QwenSlidesOnlyWhereToldTo) {
  json changes = {{"sliding_window", 5}, {"max_window_layers", 1}};
  EXPECT_EQ(parse("qwen2", changes).sliding_window, windows(0, 0, 0));
  changes["use_sliding_window"] = true;
  EXPECT_EQ(parse("qwen2", changes).sliding_window, windows(0, 5, 5));
  changes["layer_types"] = {"sliding_attention", "full_attention", "full_attention"};
  EXPECT_EQ(parse("qwen2", changes).sliding_window, windows(5, 0, 0));
}

TEST(ConfigTest, EosMayBeOneOrMany) {
  EXPECT_EQ(parse("llama", {{"eos_token_id", 2}}).eos_token_ids, std::vector<int64_t>{2});
  EXPECT_EQ(parse("llama", {{"eos_token_id", {2, 3}}}).eos_token_ids, (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(parse("llama").eos_token_ids.empty());
}

// ---- Rope
// ----------------------------------------------------------------------------------------

const json kLlama3 = {{"rope_type", "llama3"},
                      {"factor", 8.0},
                      {"low_freq_factor", 1.0},
                      {"high_freq_factor", 4.0},
                      {"original_max_position_embeddings", 32}};

TEST(RopeConfigTest, TheThetaInsideGoesBeforeTheOneOutside) {
  EXPECT_EQ(parse("llama", {{"rope_theta", 5.0}}).rope.theta, 5.0);
  const json inside = {{"rope_theta", 7.0}, {"rope_type", "default"}};
  EXPECT_EQ(parse("llama", {{"rope_theta", 5.0}, {"rope_parameters", inside}}).rope.theta, 7.0);
}

TEST(RopeConfigTest, ScalingOfTransformers4GoesBeforeParametersOfTransformers5) {
  const json linear = {{"type", "linear"}, {"factor", 2.0}};
  const auto rope = parse("llama", {{"rope_scaling", linear}, {"rope_parameters", kLlama3}}).rope;
  EXPECT_EQ(rope.scaling, RopeConfig::Scaling::linear);
  EXPECT_EQ(rope.factor, 2.0);
}

TEST(RopeConfigTest, Llama3IsReadWhole) {
  const auto rope = parse("llama", {{"rope_parameters", kLlama3}}).rope;
  EXPECT_EQ(rope.scaling, RopeConfig::Scaling::llama3);
  EXPECT_EQ(rope.high_freq_factor, 4.0);
  EXPECT_EQ(rope.original_max_position_embeddings, 32);
}

// ---- Refused
// -------------------------------------------------------------------------------------

struct Refused {
  const char* name;
  json changes;
  const char* says;
};

void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }

class RefusedConfigTest : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedConfigTest, NamesFileKeyAndCause) {
  const auto error = error_of([] { parse("mistral", GetParam().changes); });
  EXPECT_TRUE(error.starts_with("config.json: ")) << error;
  EXPECT_TRUE(says(error, GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedConfigTest,
    ::testing::Values(
        Refused{
            "family",
            {{"model_type", "gpt2"}},
            "model_type: \"gpt2\" is not supported; supported are llama, mistral, qwen2, qwen3"},
        Refused{"activation", {{"hidden_act", "gelu"}}, "hidden_act: \"gelu\" is not supported"},
        Refused{"quantized", {{"quantization_config", json::object()}}, "quantized weights"},
        Refused{"dropout", {{"attention_dropout", 0.1}}, "attention_dropout: is not supported"},
        Refused{"yarn",
                {{"rope_scaling", {{"type", "yarn"}, {"factor", 2.0}}}},
                "rope_scaling.rope_type: \"yarn\" is not supported"},
        Refused{"no factor",
                {{"rope_scaling", {{"type", "linear"}}}},
                "rope_scaling.factor: is missing"},
        Refused{"rope no object", {{"rope_parameters", 3}}, "rope_parameters: must be an object"},
        Refused{"partial rotation", {{"partial_rotary_factor", 0.5}}, "partial_rotary_factor"},
        Refused{"missing size", {{"hidden_size", nullptr}}, "hidden_size: is missing"},
        Refused{"size 0", {{"vocab_size", 0}}, "vocab_size: must be an integer from 1"},
        Refused{"negative size", {{"vocab_size", -1}}, "vocab_size: must be an integer from 1"},
        Refused{"size of 64 bits", {{"vocab_size", UINT64_MAX}}, "not 18446744073709551615"},
        Refused{"size as text", {{"vocab_size", "96"}}, "vocab_size: must be an integer"},
        Refused{"many layers", {{"num_hidden_layers", 20'000}}, "num_hidden_layers: is more than"},
        Refused{"heads", {{"num_key_value_heads", 3}}, "3 does not divide the 4 attention heads"},
        Refused{"odd head", {{"head_dim", 7}}, "head_dim: must be even"},
        Refused{"eps", {{"rms_norm_eps", 0}}, "rms_norm_eps: must be a number above 0"},
        Refused{"flag", {{"tie_word_embeddings", 1}}, "must be true or false, not 1"},
        Refused{"dtype", {{"dtype", "float8"}}, "dtype: \"float8\" is not supported"},
        Refused{"eos", {{"eos_token_id", {1, "x"}}}, "eos_token_id: must be a token id"}));

TEST(RefusedConfigTest, WhatIsNoJson) {
  EXPECT_TRUE(says(error_of([] { parse_config("{", "c"); }), "c: is no JSON"));
  EXPECT_TRUE(says(error_of([] { parse_config("[]", "c"); }), "c: must be a JSON object"));
  EXPECT_TRUE(
      says(error_of([] { parse_config(std::string(100'000, '['), "c"); }), "nested too deeply"));
  EXPECT_TRUE(says(error_of([] { read_config("/nowhere"); }), "/nowhere/config.json: cannot be"));
}

}  // namespace
}  // namespace remat::models
