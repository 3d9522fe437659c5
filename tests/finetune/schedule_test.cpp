#include "finetune/schedule.h"

#include <gtest/gtest.h>

#include "finetune/error.h"

namespace remat::finetune {
namespace {

using Shape = Schedule::Shape;

// The expected numbers are transformers 5.24's, of get_*_schedule_with_warmup.

TEST(ScheduleTest, LinearRisesAndFalls) {
  const Schedule schedule(Shape::linear, 1.0, 10, 2);
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.0);
  EXPECT_DOUBLE_EQ(schedule.at(1), 0.5);
  EXPECT_DOUBLE_EQ(schedule.at(2), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(7), 0.375);
  EXPECT_DOUBLE_EQ(schedule.at(10), 0.0);
  EXPECT_DOUBLE_EQ(schedule.at(11), 0.0);
}

TEST(ScheduleTest, CosineIsHalfAtHalf) {
  const Schedule schedule(Shape::cosine, 2e-4, 12, 2);
  EXPECT_DOUBLE_EQ(schedule.at(2), 2e-4);
  EXPECT_DOUBLE_EQ(schedule.at(7), 1e-4);
  EXPECT_NEAR(schedule.at(9), 2e-4 * 0.20610737385376343, 1e-18);
}

TEST(ScheduleTest, ConstantHasNoWarmUp) {
  EXPECT_DOUBLE_EQ(Schedule(Shape::constant, 0.5, 10, 4).at(0), 0.5);
  EXPECT_DOUBLE_EQ(Schedule(Shape::constant_with_warmup, 0.5, 10, 4).at(1), 0.125);
  EXPECT_DOUBLE_EQ(Schedule(Shape::constant_with_warmup, 0.5, 10, 4).at(9), 0.5);
}

TEST(ScheduleTest, AWarmUpBelowOneIsAPartOfAllStepsRoundedUp) {
  const Schedule schedule(Shape::constant_with_warmup, 1.0, 25, 0.1);  // 2.5 steps: 3
  EXPECT_DOUBLE_EQ(schedule.at(1), 1.0 / 3);
  EXPECT_DOUBLE_EQ(schedule.at(3), 1.0);
}

TEST(ScheduleTest, AnUnknownNameIsAnErrorThatListsTheNames) {
  try {
    schedule_shape("cosin");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::usage);
    EXPECT_STREQ(error.what(),
                 "no schedule is called 'cosin': there is constant, constant_with_warmup, linear, "
                 "cosine");
  }
}

}  // namespace
}  // namespace remat::finetune
