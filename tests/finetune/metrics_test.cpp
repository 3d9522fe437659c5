#include "finetune/metrics.h"

#include <sstream>
#include <vector>

#include <gtest/gtest.h>

#include "tests/finetune/tiny.h"

namespace remat::finetune {
namespace {

class MetricsTest : public ::testing::Test {
 protected:
  void run(int64_t first, int64_t last) {
    Metrics metrics(folder / "", {{"torch", "2"}});
    metrics.on_start({.first_step = first});
    for (int64_t step = first + 1; step <= last; ++step) {
      StepReport report;
      report.step = step;
      report.loss = 1.0 / 3;
      metrics.on_step(report);
    }
  }

  std::vector<nlohmann::json> lines() {
    std::vector<nlohmann::json> all;
    std::istringstream text(testing::bytes_of(folder / "metrics.jsonl"));
    for (std::string line; std::getline(text, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }

  testing::TemporaryFolder folder;
};

TEST_F(MetricsTest, WritesAnObjectALineWithEveryDigit) {
  run(0, 2);
  ASSERT_EQ(lines().size(), 3);
  EXPECT_EQ(lines()[0]["event"], "start");
  EXPECT_EQ(lines()[0]["torch"], "2");
  EXPECT_EQ(lines()[2]["step"], 2);
  EXPECT_EQ(lines()[2]["loss"].get<double>(), 1.0 / 3);
}

TEST_F(MetricsTest, AResumedTrainingDropsTheLinesThatItWritesAgain) {
  run(0, 5);
  run(3, 6);
  std::vector<int64_t> steps;
  for (const auto& line : lines()) {
    if (line["event"] == "step") steps.push_back(line["step"]);
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST_F(MetricsTest, ANewTrainingStartsANewFile) {
  run(0, 5);
  run(0, 1);
  EXPECT_EQ(lines().size(), 2);
}

}  // namespace
}  // namespace remat::finetune
