#include "models/decoder.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "models/folder.h"
#include "models/safetensors.h"
#include "tests/models/error_of.h"
#include "tests/support/temporary_folder.h"

namespace remat::models {
namespace {

using remat::testing::TemporaryFolder;

constexpr const char* kConfig = R"({"model_type": "llama", "vocab_size": 24, "hidden_size": 16,
  "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
  "num_key_value_heads": 2, "tie_word_embeddings": true})";

/// A decoder with the same random weights every time.
Decoder tiny() {
  at::manual_seed(1);
  return make_decoder(parse_config(kConfig, "c"), [](const std::string&, at::IntArrayRef shape) {
    return at::randn(shape) * 0.3;
  });
}

at::Tensor some_tokens() { return at::arange(20, at::kLong).view({2, 10}); }

at::Tensor logits(const Decoder& decoder, const RunLayers& run = {}) {
  return decoder.logits(decoder.hidden_states({some_tokens(), {}, {}, nullptr}, run));
}

TEST(DecoderTest, LaterTokensDoNotChangeEarlierLogits) {
  const auto decoder = tiny();
  auto tokens = some_tokens();
  const auto before = logits(decoder).slice(1, 0, 9);
  tokens.select(1, 9).fill_(3);
  const auto after = decoder.logits(decoder.hidden_states({tokens, {}, {}, nullptr}));
  EXPECT_TRUE(before.equal(after.slice(1, 0, 9)));
}

TEST(DecoderTest, TheCallerRunsTheLayers) {
  const auto decoder = tiny();
  size_t given = 0;
  const auto run = [&](const std::vector<RunLayer>& layers, at::Tensor hidden) {
    given = layers.size();
    for (const auto& layer : layers) hidden = layer(hidden);
    return hidden;
  };
  EXPECT_TRUE(logits(decoder, run).equal(logits(decoder)));
  EXPECT_EQ(given, 3);
}

TEST(DecoderTest, AnAdapterSeesInputAndOutputOfItsLayerAlone) {
  auto decoder = tiny();
  const auto plain = logits(decoder);
  auto linears = decoder.named_linears();
  ASSERT_EQ(linears.size(), 21);
  auto& [name, linear] = linears[7];
  EXPECT_EQ(name, "model.layers.1.self_attn.q_proj");
  const auto& weight = linear->weight;
  linear->adapter = [&](const at::Tensor& input, const at::Tensor& output) {
    EXPECT_TRUE(at::linear(input, weight).equal(output));
    return output * 2;
  };
  EXPECT_FALSE(logits(decoder).equal(plain));
}

TEST(DecoderTest, ParametersHaveTheirNamesInFilesAndATiedHeadHasNone) {
  const auto named = tiny().named_parameters();
  ASSERT_EQ(named.size(), 2 + 3 * 9);
  EXPECT_EQ(named.front().first, "model.embed_tokens.weight");
  EXPECT_EQ(named[1].first, "model.layers.0.input_layernorm.weight");
  EXPECT_EQ(named.back().first, "model.norm.weight");
}

TEST(DecoderTest, ATiedHeadGivesItsGradientToTheEmbedding) {
  const auto decoder = tiny();
  decoder.embed_tokens.requires_grad_();
  logits(decoder).sum().backward();
  EXPECT_TRUE(decoder.lm_head.weight.is_same(decoder.embed_tokens));
  // Token 23 is in no input: what it has of gradient came through the head.
  EXPECT_GT(decoder.embed_tokens.grad().select(0, 23).abs().max().item<float>(), 0);
}

TEST(DecoderTest, AutocastComputesInBfloat16AndStaysNear) {
  const auto decoder = tiny();
  const auto plain = logits(decoder);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  const auto cast = logits(decoder);
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(cast.scalar_type(), at::kBFloat16);
  EXPECT_LT((cast.to(at::kFloat) - plain).abs().max().item<float>(), 0.3);
}

TEST(DecoderTest, InputsThatDoNotFitAreRefused) {
  const auto decoder = tiny();
  KvCache cache(decoder.config, 2, 9, at::kFloat);
  const auto run = [&](const Inputs& inputs) { return decoder.hidden_states(inputs); };
  EXPECT_THROW(run({some_tokens().to(at::kInt), {}, {}, nullptr}), std::invalid_argument);
  EXPECT_THROW(run({some_tokens()[0], {}, {}, nullptr}), std::invalid_argument);
  EXPECT_THROW(run({some_tokens(), some_tokens()[0], {}, nullptr}), std::invalid_argument);
  EXPECT_THROW(run({some_tokens(), {}, {}, &cache}), std::invalid_argument);
}

// ---- Folders
// -------------------------------------------------------------------------------------

class FolderOfModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.write("config.json", kConfig);
    tensors_ = tiny().named_parameters();
  }

  /// What loading says of the folder with these tensors.
  std::string load() {
    safetensors::write_folder(folder_.path(), tensors_);
    return error_of([&] { load_model(folder_.path()); });
  }

  TemporaryFolder folder_;
  safetensors::NamedTensors tensors_;
};

TEST_F(FolderOfModelTest, IsReadWholeAndInTheDtypeAskedFor) {
  EXPECT_EQ(load(), "no error");
  EXPECT_TRUE(logits(load_model(folder_.path())).equal(logits(tiny())));
  EXPECT_EQ(load_model(folder_.path(), at::kBFloat16).dtype(), at::kBFloat16);
}

TEST_F(FolderOfModelTest, AMissingTensorIsNamed) {
  tensors_.pop_back();
  EXPECT_TRUE(says(load(), "tensor \"model.norm.weight\": is in none of the folder's files"));
}

TEST_F(FolderOfModelTest, AMisshapenTensorIsNamedWithBothShapes) {
  tensors_.back().second = at::ones({15});
  const auto error = load();
  EXPECT_TRUE(says(error, "model.safetensors: tensor \"model.norm.weight\": has shape [15]"));
  EXPECT_TRUE(says(error, "config.json asks for [16]"));
}

TEST_F(FolderOfModelTest, ATensorOfAnotherModelIsNamed) {
  tensors_.emplace_back("model.layers.3.input_layernorm.weight", at::ones({16}));
  EXPECT_TRUE(
      says(load(), "\"model.layers.3.input_layernorm.weight\": is no parameter of a llama"));
}

TEST_F(FolderOfModelTest, IntegersAreNoWeights) {
  tensors_.back().second = at::ones({16}, at::kLong);
  EXPECT_TRUE(says(load(), "has dtype I64; weights must be F32, BF16 or F16"));
}

TEST_F(FolderOfModelTest, ATiedHeadMayBeStoredIfItIsTheEmbedding) {
  tensors_.emplace_back("lm_head.weight", tensors_.front().second.clone());
  EXPECT_EQ(load(), "no error");
  tensors_.back().second.add_(1);
  EXPECT_TRUE(says(load(), "\"lm_head.weight\": is no parameter"));
}

}  // namespace
}  // namespace remat::models
