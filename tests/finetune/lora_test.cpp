#include "finetune/lora.h"

#include <cmath>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "finetune/adapter.h"
#include "finetune/error.h"
#include "finetune/file.h"
#include "models/folder.h"
#include "tests/finetune/tiny.h"
#include "tests/support/compare.h"

namespace remat::finetune {
namespace {

namespace fs = std::filesystem;

class LoraTest : public ::testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(3);
    testing::write_model(folder / "model");
    decoder = models::load_model(folder / "model");
  }

  at::Tensor hidden() const {
    models::Inputs inputs;
    inputs.tokens = at::tensor({3, 1, 4, 1, 5}, at::kLong).unsqueeze(0);
    return decoder.hidden_states(inputs).detach();
  }

  /// Random numbers in B, which starts at zero.
  static void train(const Lora& lora) {
    const at::NoGradGuard no_grad;
    for (const auto& module : lora.modules()) at::Tensor(module.b).normal_();
  }

  testing::TemporaryFolder folder;
  models::Decoder decoder;
};

TEST_F(LoraTest, AFreshAdapterChangesNothingAndFreezesTheRest) {
  const auto before = hidden();
  const Lora lora(decoder, {.r = 4});
  testing::expect_same_bits(hidden(), before, "hidden states");
  EXPECT_EQ(lora.modules().size(), 7 * testing::kLayers);
  for (const auto& [name, parameter] : decoder.named_parameters()) {
    EXPECT_FALSE(parameter.requires_grad()) << name;
  }
}

TEST_F(LoraTest, AddsTheScaledProduct) {
  auto& linear = decoder.layers[0].mlp.up_proj;
  const auto input = testing::constant({5, 16});
  const auto base = linear.forward(input);
  const Lora lora(decoder, {.r = 4, .alpha = 6, .targets = {"up_proj"}});
  train(lora);
  const auto& module = lora.modules()[0];
  EXPECT_EQ(module.name, "model.layers.0.mlp.up_proj");
  const auto merged = base + input.mm(module.a.t()).mm(module.b.t()) * 1.5;
  EXPECT_TRUE(at::allclose(linear.forward(input), merged, 1e-5, 1e-6));
}

TEST_F(LoraTest, ScalesByTheRootOfTheRankWithRslora) {
  EXPECT_DOUBLE_EQ((LoraConfig{.r = 16, .alpha = 8}.scale()), 0.5);
  EXPECT_DOUBLE_EQ((LoraConfig{.r = 16, .alpha = 8, .rslora = true}.scale()), 2.0);
}

TEST_F(LoraTest, StartsAUniformlyWithinTheBoundOfPeft) {
  const Lora lora(decoder, {.r = 64, .targets = {"down_proj"}});  // 24 inputs
  const auto& a = lora.modules()[0].a;
  const double bound = 1 / std::sqrt(24.0);
  EXPECT_LE(a.abs().max().item<double>(), bound);
  EXPECT_NEAR(a.std().item<double>(), bound / std::sqrt(3.0), 0.1 * bound);
}

TEST_F(LoraTest, DropoutIsOffWithoutGradients) {
  const Lora lora(decoder, {.r = 4, .dropout = 0.5});
  train(lora);
  EXPECT_FALSE(hidden().equal(hidden()));
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(hidden().equal(hidden()));
}

TEST_F(LoraTest, ATargetThatIsNoLayerIsAnErrorThatNamesThem) {
  try {
    Lora(decoder, {.targets = {"q_proj", "c_attn"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::usage);
    EXPECT_NE(std::string(error.what()).find("'c_attn'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("q_proj, up_proj, v_proj"), std::string::npos);
  }
}

TEST_F(LoraTest, IsSavedAndLoadedWithTheSameBits) {
  const Lora lora(decoder, {.r = 4, .alpha = 3, .targets = {"q_proj", "mlp.up_proj"}});
  train(lora);
  const auto expected = hidden();
  fs::create_directories(folder / "adapter");
  save_adapter(lora, "BASE", folder / "adapter");

  decoder = models::load_model(folder / "model");
  const auto loaded = load_adapter(decoder, folder / "adapter");
  testing::expect_same_bits(hidden(), expected, "hidden states");
  EXPECT_DOUBLE_EQ(loaded.config().scale(), 0.75);
}

TEST_F(LoraTest, WhatCannotBeLoadedIsAnErrorThatNamesIt) {
  const Lora lora(decoder, {.r = 4});
  fs::create_directories(folder / "adapter");
  save_adapter(lora, "BASE", folder / "adapter");
  const auto config = read_json(folder / "adapter" / "adapter_config.json");
  const auto error_with = [&](const char* key, const nlohmann::json& value) {
    auto changed = config;
    changed[key] = value;
    write_text(folder / "adapter" / "adapter_config.json", changed.dump());
    auto fresh = models::load_model(folder / "model");
    try {
      load_adapter(fresh, folder / "adapter");
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::model);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_with("use_dora", false), "");
  EXPECT_NE(error_with("use_dora", true).find("use_dora is true"), std::string::npos);
  EXPECT_NE(error_with("peft_type", "IA3").find("peft_type is not LORA"), std::string::npos);
  EXPECT_NE(error_with("r", 5).find("other shapes"), std::string::npos);
  EXPECT_NE(error_with("r", "four").find("adapter_config.json"), std::string::npos);
}

}  // namespace
}  // namespace remat::finetune
