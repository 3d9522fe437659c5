#include "remat/plan/budget.h"

#include <stdexcept>

#include <gtest/gtest.h>

namespace remat::plan {
namespace {

TEST(BudgetTest, ReadsBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_bytes("6GiB"), 6LL << 30);
  EXPECT_EQ(parse_bytes("6G"), 6LL << 30);
  EXPECT_EQ(parse_bytes("6 gib"), 6LL << 30);
  EXPECT_EQ(parse_bytes("6000MB"), 6'000'000'000LL);
  EXPECT_EQ(parse_bytes("1.5KiB"), 1536);
  EXPECT_EQ(parse_bytes("4096"), 4096);
}

TEST(BudgetTest, ReadsSharesOfTheWhole) {
  EXPECT_EQ(parse_budget("80%", 1000), 800);
  EXPECT_EQ(parse_budget("0.1 %", 1999), 1) << "down";
  EXPECT_EQ(parse_budget("2K", 1000), 2048);
}

TEST(BudgetTest, RefusesEverythingElse) {
  for (const char* text : {"", "6X", "GiB", "-6GiB", "0", "nan", "inf", "1e300G", "6GiB6", "%"}) {
    EXPECT_THROW(parse_budget(text, 1000), std::invalid_argument) << text;
  }
  EXPECT_THROW(parse_bytes("80%"), std::invalid_argument) << "of what?";
}

}  // namespace
}  // namespace remat::plan
