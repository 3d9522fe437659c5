#include "finetune/trainer.h"

#include <atomic>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "finetune/error.h"
#include "tests/finetune/tiny.h"

namespace remat::finetune {
namespace {

namespace fs = std::filesystem;
using testing::bytes_of;
using testing::Notes;

class TrainerTest : public ::testing::Test {
 protected:
  /// Trains to the end, or until `stop`.
  Notes train(const Settings& settings, bool stop = false) {
    Notes notes;
    Trainer trainer(settings, notes);
    std::atomic<bool> flag{stop};
    const auto end = trainer.run(flag);
    EXPECT_EQ(end, stop ? Trainer::End::stopped : Trainer::End::done);
    return notes;
  }

  std::string final_weights(const char* name = "adapter_model.safetensors") {
    return bytes_of(fs::path(settings.output) / "final" / name);
  }

  testing::TemporaryFolder folder;
  Settings settings = testing::tiny_settings(folder);
};

TEST_F(TrainerTest, LearnsWhatItIsShown) {
  settings.max_steps = 40;
  settings.lora.dropout = 0;
  const auto losses = train(settings).losses();
  EXPECT_NEAR(losses.front(), std::log(101.0), 0.3);
  EXPECT_LT(losses.back(), losses.front() - 0.5);
}

TEST_F(TrainerTest, RecomputationChangesNoBit) {
  for (const char* method : {"lora", "full"}) {
    settings.method = method;
    settings.overwrite = true;
    settings.activation_checkpointing = "none";
    const auto expected = train(settings).losses();
    const auto* file = settings.is_lora() ? "adapter_model.safetensors" : "model.safetensors";
    const auto weights = final_weights(file);
    for (const char* setting : {"full", "sqrt", "every:2"}) {
      SCOPED_TRACE(std::string(method) + " " + setting);
      settings.activation_checkpointing = setting;
      const auto notes = train(settings);
      EXPECT_EQ(notes.losses(), expected);
      EXPECT_EQ(final_weights(file), weights);
      EXPECT_GT(notes.steps.back().ops_replayed, 0);
    }
  }
}

TEST_F(TrainerTest, SoDoesItUnderAutocast) {
  settings.bf16 = true;
  const auto expected = train(settings).losses();
  settings.overwrite = true;
  settings.activation_checkpointing = "full";
  EXPECT_EQ(train(settings).losses(), expected);
}

TEST_F(TrainerTest, ResumesBitForBit) {
  for (const char* method : {"lora", "full"}) {
    SCOPED_TRACE(method);
    settings.method = method;
    settings.overwrite = true;
    const auto expected = train(settings).losses();
    const auto last = fs::path(settings.output) / "checkpoint-000006";
    const auto optimizer = bytes_of(last / "optimizer.safetensors");

    auto resumed = settings;
    resumed.resume = (fs::path(settings.output) / "checkpoint-000002").string();
    const auto losses = train(resumed).losses();
    EXPECT_EQ(losses, std::vector(expected.begin() + 2, expected.end()));
    EXPECT_EQ(bytes_of(last / "optimizer.safetensors"), optimizer);
  }
}

TEST_F(TrainerTest, StopsAfterTheStepUnderWaySavedAndGoesOn) {
  const auto expected = train(settings).losses();
  settings.overwrite = true;
  settings.save_steps = 0;
  EXPECT_EQ(train(settings, /*stop=*/true).losses().size(), 1);
  settings.resume = "auto";
  EXPECT_EQ(train(settings).losses(), std::vector(expected.begin() + 1, expected.end()));
}

TEST_F(TrainerTest, ADamagedCheckpointIsPassedOverForTheOneBefore) {
  const auto expected = train(settings).losses();
  fs::resize_file(fs::path(settings.output) / "checkpoint-000006" / "optimizer.safetensors", 100);
  settings.resume = "auto";
  const auto notes = train(settings);
  ASSERT_EQ(notes.warnings.size(), 1);
  EXPECT_NE(notes.warnings[0].find("checkpoint-000006"), std::string::npos);
  EXPECT_EQ(notes.losses(), std::vector(expected.begin() + 4, expected.end()));
}

TEST_F(TrainerTest, AccumulationWeighsTokensNotBatches) {
  settings.lora.dropout = 0;
  settings.shuffle = false;
  settings.batch_size = 4;
  settings.max_steps = 1;
  const auto whole = train(settings).steps.front();
  settings.overwrite = true;
  settings.batch_size = 1;
  settings.accumulation = 4;
  const auto parts = train(settings).steps.front();
  EXPECT_NEAR(parts.loss, whole.loss, 1e-6);
  EXPECT_NEAR(parts.grad_norm, whole.grad_norm, 1e-5);
  EXPECT_EQ(parts.tokens, whole.tokens);
}

TEST_F(TrainerTest, EvaluatesAndSamplesWithoutMovingTheTraining) {
  const auto expected = train(settings).losses();
  settings.overwrite = true;
  settings.eval_data = settings.data;
  settings.eval_steps = 1;
  const auto notes = train(settings);
  EXPECT_EQ(notes.losses(), expected);
  ASSERT_EQ(notes.evals.size(), 6);
  EXPECT_NEAR(notes.evals[0].perplexity, std::exp(notes.evals[0].loss), 1e-9);
}

TEST_F(TrainerTest, OtherSettingsThanTheCheckpointsAreAnErrorThatNamesThem) {
  train(settings);
  settings.resume = "auto";
  settings.seed = 43;
  try {
    train(settings);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::model);
    EXPECT_NE(std::string(error.what()).find("seed 42, now it is 43"), std::string::npos);
  }
}

TEST_F(TrainerTest, AnEarlierTrainingIsNotOverwrittenUnasked) {
  train(settings);
  EXPECT_THROW(train(settings), Error);
}

TEST_F(TrainerTest, ALossThatIsNoNumberIsAnErrorBeforeTheUpdate) {
  settings.learning_rate = 1e30;
  settings.max_grad_norm = 0;
  try {
    train(settings);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::non_finite);
  }
}

TEST_F(TrainerTest, BfloatWeightsAreTrained) {
  settings.dtype = "bf16";
  for (const char* method : {"lora", "full"}) {
    settings.method = method;
    settings.overwrite = true;
    for (const double loss : train(settings).losses()) EXPECT_TRUE(std::isfinite(loss));
  }
}

}  // namespace
}  // namespace remat::finetune
