#include "remat/stats.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

class StatsTest : public ::testing::Test {
 protected:
  StatsTest() { reset_stats(); }
};

TEST_F(StatsTest, CountsOutermostRegions) {
  checkpoint([] { checkpoint([] {}); });
  checkpoint([] {});
  EXPECT_EQ(stats().regions, 2);
}

TEST_F(StatsTest, CountsOperatorsRecordedAndReplayed) {
  const auto x = leaf();
  const auto loss = checkpoint([&] { return x.exp().sin().sum(); });
  EXPECT_EQ(stats().ops_recorded, 3);
  EXPECT_EQ(stats().ops_replayed, 0);
  loss.backward();
  EXPECT_EQ(stats().ops_replayed, 1);  // exp
}

TEST_F(StatsTest, CountsBytesDropped) {
  const auto x = leaf();
  const auto loss = checkpoint([&] { return x.exp().sin().sum(); });
  EXPECT_EQ(stats().bytes_dropped, 2 * 64);  // the result of exp, saved by it and by sin
  EXPECT_EQ(stats().bytes_kept, 0);
}

TEST_F(StatsTest, CountsBytesKeptByReason) {
  const auto x = leaf();
  const auto loss = checkpoint([&] { return (x.sin() * constant()).sum(); });
  const auto now = stats();
  EXPECT_EQ(now.kept_by_reason.at("parameter"), 64);
  EXPECT_EQ(now.bytes_kept + now.bytes_dropped, 2 * 64);
}

TEST_F(StatsTest, EveryReasonHasAnEntry) {
  for (const char* reason : {"parameter", "input", "policy", "unknown", "opaque", "suspended"}) {
    EXPECT_EQ(stats().kept_by_reason.count(reason), 1) << reason;
  }
}

TEST_F(StatsTest, StartAnewAfterAReset) {
  const auto x = leaf();
  checkpoint([&] { return x.exp(); });
  reset_stats();
  EXPECT_EQ(stats().ops_recorded, 0);
  EXPECT_EQ(stats().bytes_dropped, 0);
  EXPECT_EQ(stats().regions, 0);
}

}  // namespace
}  // namespace remat::testing
