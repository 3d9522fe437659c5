#include "finetune/activation.h"

#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "finetune/error.h"
#include "remat/stats.h"
#include "tests/support/compare.h"

namespace remat::finetune {
namespace {

using Spans = std::vector<Span>;

TEST(ActivationTest, CutsTheLayersAsTheSettingSays) {
  EXPECT_EQ(activation_spans("none", 3), (Spans{{0, 3, false}}));
  EXPECT_EQ(activation_spans("full", 3), (Spans{{0, 1}, {1, 2}, {2, 3}}));
  EXPECT_EQ(activation_spans("sqrt", 7), (Spans{{0, 2}, {2, 4}, {4, 7}}));
  EXPECT_EQ(activation_spans("every:1", 2), (Spans{{0, 1}, {1, 2}}));
  EXPECT_EQ(activation_spans("every:2", 5),
            (Spans{{0, 1}, {1, 2, false}, {2, 3}, {3, 4, false}, {4, 5}}));
}

TEST(ActivationTest, AnotherNameIsAnErrorThatNamesThese) {
  for (const std::string setting :
       {"all", "every:", "every:0", "every:x", "every:2x", "every:-1"}) {
    try {
      activation_spans(setting, 4);
      FAIL() << setting;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::usage);
      EXPECT_NE(std::string(error.what()).find("none, full, sqrt, or every:N"), std::string::npos);
    }
  }
}

TEST(ActivationTest, OpensARegionForEachRecomputedSpan) {
  const std::vector<models::RunLayer> layers(
      7, [](const at::Tensor& hidden) { return hidden.sin().exp(); });
  const auto regions = [&](const char* setting) {
    reset_stats();
    run_with_recomputation(setting, layers.size())(layers, testing::leaf()).sum().backward();
    return stats().regions;
  };
  EXPECT_EQ(regions("none"), 0);
  EXPECT_EQ(regions("full"), 7);
  EXPECT_EQ(regions("sqrt"), 3);
  EXPECT_EQ(regions("every:3"), 3);
}

}  // namespace
}  // namespace remat::finetune
