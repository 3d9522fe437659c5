#include "finetune/generation.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "finetune/error.h"
#include "models/folder.h"
#include "tests/finetune/tiny.h"

namespace remat::finetune {
namespace {

class GenerationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_model(folder / "model");
    decoder = models::load_model(folder / "model");
  }

  /// The likeliest next token, computed from the whole text anew.
  int64_t likeliest(const std::vector<int64_t>& text) const {
    const at::NoGradGuard no_grad;
    models::Inputs inputs;
    inputs.tokens = at::tensor(text, at::kLong).unsqueeze(0);
    return decoder.logits(decoder.hidden_states(inputs))[0][-1].argmax().item<int64_t>();
  }

  testing::TemporaryFolder folder;
  models::Decoder decoder;
};

TEST_F(GenerationTest, ContinuesWithTheLikeliestTokens) {
  std::vector<int64_t> text{3, 1, 4};
  std::vector<int64_t> seen;
  const auto generated = generate(decoder, text, {.max_new_tokens = 6}, [&](int64_t token) {
    seen.push_back(token);
    return true;
  });
  ASSERT_EQ(generated.size(), 6);
  EXPECT_EQ(seen, generated);
  for (const int64_t token : generated) {
    EXPECT_EQ(token, likeliest(text));
    text.push_back(token);
  }
}

TEST_F(GenerationTest, EndsBeforeATokenThatEndsATextAndWhenNobodyListens) {
  const auto free = generate(decoder, {3, 1, 4}, {.max_new_tokens = 6});
  EXPECT_EQ(generate(decoder, {3, 1, 4}, {}, [](int64_t) { return false; }).size(), 1);
  decoder.config.eos_token_ids = {free[0]};
  EXPECT_TRUE(generate(decoder, {3, 1, 4}, {}).empty());
}

TEST_F(GenerationTest, DrawsTheSameForTheSameSeedAndOnlyTheLikeliestInASmallNucleus) {
  const auto draw = [&](uint64_t seed, double top_p) {
    return generate(decoder, {3, 1, 4},
                    {.max_new_tokens = 20, .temperature = 5, .top_p = top_p, .seed = seed});
  };
  EXPECT_EQ(draw(1, 1), draw(1, 1));
  EXPECT_NE(draw(1, 1), draw(2, 1));
  EXPECT_EQ(draw(1, 1e-6), generate(decoder, {3, 1, 4}, {.max_new_tokens = 20}));
}

TEST_F(GenerationTest, AnEmptyPromptOrANumberOutOfRangeIsAnError) {
  EXPECT_THROW(generate(decoder, {}, {}), Error);
  EXPECT_THROW(generate(decoder, {1}, {.temperature = -1}), Error);
  EXPECT_THROW(generate(decoder, {1}, {.top_p = 0}), Error);
}

}  // namespace
}  // namespace remat::finetune
