#include "finetune/dataset.h"

#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "finetune/batch.h"
#include "finetune/error.h"
#include "finetune/file.h"
#include "finetune/loss.h"
#include "models/safetensors.h"
#include "tests/finetune/tiny.h"

namespace remat::finetune {
namespace {

using testing::Rows;
using testing::TemporaryFolder;
using testing::write_tokens;

class DatasetTest : public ::testing::Test {
 protected:
  Dataset load(const Rows& rows, const Rows& marks, int64_t max_length = 100) {
    write_tokens(path, rows, marks);
    return {path, {.vocabulary = 50, .max_length = max_length}};
  }

  /// What the error says; empty without one.
  template <typename Body>
  std::string error(const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::data);
      return error.what();
    }
    return {};
  }

  TemporaryFolder folder;
  std::filesystem::path path = folder / "tokens.safetensors";
};

TEST_F(DatasetTest, CutsRowsToTheirFirstTokens) {
  const auto data = load({{1, 2, 3, 4}, {5, 6}}, {{0, 0, 1, 1}, {1, 1}}, 3);
  EXPECT_EQ(data.rows(), 2);
  EXPECT_EQ(std::vector(data.row(0).tokens.begin(), data.row(0).tokens.end()),
            (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(data.row(0).trained(), 1);
  EXPECT_EQ(data.row(1).trained(), 1);  // its first token is never trained on
  EXPECT_EQ(data.truncated(), 1);
  EXPECT_EQ(data.longest(), 3);
}

TEST_F(DatasetTest, ATokenOutsideTheVocabularyIsAnErrorThatSaysWhere) {
  const auto text = error([&] { load({{1, 2}, {3, 50, 4}}, {{1, 1}, {1, 1, 1}}); });
  EXPECT_NE(text.find("row 1, token 1 is 50, but the model's vocabulary has 50 tokens"),
            std::string::npos);
  EXPECT_NE(error([&] {
              load({{1, -2}}, {{1, 1}});
            }).find("row 0, token 1 is -2"),
            std::string::npos);
}

TEST_F(DatasetTest, RowsWithoutATrainedTokenAreAnError) {
  const auto text = error([&] {
    load({{1, 2}, {1, 2, 3}, {4, 5, 6}}, {{1, 1}, {1, 0, 0}, {0, 0, 1}}, 2);
  });
  EXPECT_NE(text.find("2 rows have no trainable token within 2 tokens (first: row 1)"),
            std::string::npos);
}

TEST_F(DatasetTest, NoRowsAreAnError) {
  EXPECT_NE(error([&] { load({}, {}); }).find("it has no rows"), std::string::npos);
}

TEST_F(DatasetTest, OffsetsThatDoNotFitAreAnError) {
  for (const std::vector<int64_t>& offsets : {std::vector<int64_t>{0, 5}, {1, 3}, {0, 2, 1, 3}}) {
    models::safetensors::write(path, {{"tokens", at::ones({3}, at::kInt)},
                                      {"mask", at::ones({3}, at::kByte)},
                                      {"offsets", at::tensor(offsets, at::kLong)}});
    EXPECT_NE(error([&] {
                Dataset(path, {.vocabulary = 50, .max_length = 9});
              }).find("offsets of its rows"),
              std::string::npos);
  }
}

TEST_F(DatasetTest, AnotherFileIsAnErrorThatNamesTheCommand) {
  write_text(path, "not a header");
  EXPECT_NE(error([&] {
              Dataset(path, {.vocabulary = 50, .max_length = 9});
            }).find("python -m remat.prepare data"),
            std::string::npos);
  const auto text = (folder / "train.txt").string();
  write_text(text, "some text");
  EXPECT_NE(error([&] {
              find_data(text, "", "MODEL");
            }).find("python -m remat.prepare data " + text + " --model MODEL"),
            std::string::npos);
}

TEST_F(DatasetTest, AFolderHasATrainingAndAHeldOutPart) {
  write_tokens(folder / "train.safetensors", {{1, 2}});
  const auto name = (folder / "").parent_path().string();
  EXPECT_TRUE(find_data(name, "", "").valid.empty());
  write_tokens(folder / "valid.safetensors", {{1, 2}});
  EXPECT_EQ(find_data(name, "", "").valid, folder / "valid.safetensors");
}

TEST_F(DatasetTest, ABatchIsPaddedOnTheRightWithIgnoredLabels) {
  const auto data = load({{1, 2, 3, 4}, {5, 6}}, {{0, 0, 1, 1}, {1, 1}});
  const auto batch = make_batch(data, {1, 0});
  EXPECT_EQ(batch.length, 6);
  EXPECT_EQ(batch.trained, 3);
  EXPECT_TRUE(batch.tokens.equal(at::tensor({5, 6, 0, 0, 1, 2, 3, 4}, at::kLong).view({2, 4})));
  const auto none = kIgnored;
  EXPECT_TRUE(batch.labels.equal(
      at::tensor({int64_t{6}, none, none, none, none, int64_t{3}, int64_t{4}, none}, at::kLong)
          .view({2, 4})));
}

}  // namespace
}  // namespace remat::finetune
