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

std::string error_of(const std::string& setting) {
  try {
    recomputation_of(setting, 4);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::usage);
    return error.what();
  }
  return "no error";
}

TEST(ActivationTest, CutsTheLayersAsTheSettingSays) {
  EXPECT_EQ(recomputation_of("none", 3).spans, (Spans{{0, 3, false}}));
  EXPECT_EQ(recomputation_of("full", 3).spans, (Spans{{0, 1}, {1, 2}, {2, 3}}));
  EXPECT_EQ(recomputation_of("sqrt", 7).spans, (Spans{{0, 2}, {2, 4}, {4, 7}}));
  EXPECT_EQ(recomputation_of("every:1", 2).spans, (Spans{{0, 1}, {1, 2}}));
  EXPECT_EQ(recomputation_of("every:2", 5).spans,
            (Spans{{0, 1}, {1, 2, false}, {2, 3}, {3, 4, false}, {4, 5}}));
}

TEST(ActivationTest, APolicyIsKeptByEachLayerOrByWhatStandsBeforeIt) {
  EXPECT_EQ(recomputation_of("sqrt", 4).policy.name(), "nothing_saveable");
  EXPECT_EQ(recomputation_of("keep_ops(mm) | at_most(64)", 2).spans, (Spans{{0, 1}, {1, 2}}));
  const auto both = recomputation_of("sqrt + dots_saveable", 4);
  EXPECT_EQ(both.spans, (Spans{{0, 2}, {2, 4}}));
  EXPECT_EQ(both.policy.name(), "dots_saveable");
}

TEST(ActivationTest, AnotherNameIsAnErrorThatNamesThese) {
  for (const std::string setting : {"all", "every:", "every:0", "every:x", "every:2x", "every:-1",
                                    "all + dots_saveable", "full + all", "full +"})
    EXPECT_NE(error_of(setting).find("none, full, sqrt, or every:N"), std::string::npos) << setting;
}

TEST(ActivationTest, AnErrorInAPolicySaysWhere) {
  const auto error = error_of("dots_saveable | dots");
  EXPECT_NE(error.find("at column 17: there is no policy named \"dots\""), std::string::npos)
      << error;
}

TEST(ActivationTest, APolicyThatKeepsNothingThereIsRefused) {
  EXPECT_NE(error_of("names(attn_out)").find("values have no names"), std::string::npos);
  EXPECT_NE(error_of("none + dots_saveable").find("none keeps everything"), std::string::npos);
}

TEST(ActivationTest, LayersAreModulesForPolicies) {
  const std::vector<models::RunLayer> layers(
      3, [](const at::Tensor& hidden) { return hidden.sin().exp(); });
  const auto replayed = [&](const char* setting) {
    reset_stats();
    const auto loss = run_with_recomputation(setting, layers.size())(layers, testing::leaf()).sum();
    loss.backward();
    return stats().ops_replayed;
  };
  EXPECT_EQ(replayed("full"), 6);
  EXPECT_EQ(replayed("modules(layers.1)"), 4);
  EXPECT_EQ(replayed("sqrt + modules(layers.1, layers.2)"), 2);
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
