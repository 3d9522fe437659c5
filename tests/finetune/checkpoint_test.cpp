#include "finetune/checkpoint.h"

#include <fstream>
#include <stdexcept>

#include <gtest/gtest.h>

#include "finetune/error.h"
#include "finetune/file.h"
#include "finetune/manifest.h"
#include "tests/finetune/tiny.h"

namespace remat::finetune {
namespace {

namespace fs = std::filesystem;

class CheckpointTest : public ::testing::Test {
 protected:
  /// Saves a checkpoint of one file with that text.
  void save(const Checkpoints& checkpoints, int64_t step, const std::string& text = "weights") {
    checkpoints.save(step, [&](const fs::path& to) { write_text(to / "model", text); });
  }

  std::string newest(const Checkpoints& checkpoints) {
    return checkpoints.newest([&](const std::string& text) { warnings.push_back(text); })
        .filename()
        .string();
  }

  testing::TemporaryFolder folder;
  fs::path out = folder / "out";
  std::vector<std::string> warnings;
};

TEST_F(CheckpointTest, TheNewestIsTheLinkLatestAndTheOldestGo) {
  const Checkpoints checkpoints(out, 2);
  for (const int64_t step : {9, 10, 1000000}) save(checkpoints, step);
  EXPECT_EQ(newest(checkpoints), "checkpoint-1000000");
  EXPECT_EQ(fs::read_symlink(out / "latest"), "checkpoint-1000000");
  EXPECT_FALSE(fs::exists(out / "checkpoint-000009"));
  EXPECT_TRUE(fs::exists(out / "checkpoint-000010"));
}

TEST_F(CheckpointTest, PassesOverAnInvalidOneWithAWarning) {
  const Checkpoints checkpoints(out, 0);
  for (const int64_t step : {1, 2, 3, 4}) save(checkpoints, step);
  fs::remove(out / "checkpoint-000004" / kManifest);
  fs::resize_file(out / "checkpoint-000003" / "model", 3);
  write_text(out / "checkpoint-000002" / "model", "weighty");  // as long as "weights"
  EXPECT_EQ(newest(checkpoints), "checkpoint-000001");
  ASSERT_EQ(warnings.size(), 3);
  EXPECT_NE(warnings[0].find("MANIFEST.json is missing"), std::string::npos);
  EXPECT_NE(warnings[1].find("model has 3 bytes where the manifest says 7"), std::string::npos);
  EXPECT_NE(warnings[2].find("model differs from its checksum"), std::string::npos);
}

TEST_F(CheckpointTest, AHostileManifestIsADefectAndNoCrash) {
  for (const std::string text : {"", "[]", "{\"files\": 3}", "{\"files\": {\"model\": {}}}"}) {
    const Checkpoints checkpoints(out, 0);
    save(checkpoints, 1);
    write_text(out / "checkpoint-000001" / kManifest, text);
    EXPECT_TRUE(defect(out / "checkpoint-000001").has_value()) << text;
  }
}

TEST_F(CheckpointTest, AFailedSaveLeavesWhatWasThere) {
  const Checkpoints checkpoints(out, 1);
  save(checkpoints, 1);
  EXPECT_THROW(checkpoints.save(2,
                                [](const fs::path& to) {
                                  write_text(to / "model", "half");
                                  throw std::runtime_error("stopped");
                                }),
               std::runtime_error);
  EXPECT_EQ(newest(checkpoints), "checkpoint-000001");
  EXPECT_EQ(std::distance(fs::directory_iterator(out), {}), 2);  // it and the link
}

TEST_F(CheckpointTest, AFullDiskIsAnErrorThatNamesFileAndReason) {
  try {
    write_text("/dev/full", "weights");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::runtime);
    EXPECT_STREQ(error.what(), "cannot write /dev/full: No space left on device");
  }
}

TEST_F(CheckpointTest, LeftoversOfAKilledSaveAreNoCheckpointsAndAreRemoved) {
  const Checkpoints checkpoints(out, 0);
  fs::create_directories(out / ".tmp-checkpoint-000005");
  EXPECT_EQ(newest(checkpoints), "");
  checkpoints.clean();
  EXPECT_TRUE(fs::is_empty(out));
}

}  // namespace
}  // namespace remat::finetune
