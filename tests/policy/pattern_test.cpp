#include "remat/policy/pattern.h"

#include <string>

#include <gtest/gtest.h>

namespace remat::policy {
namespace {

TEST(PatternTest, AStarStandsForAnyCharactersAndAQuestionMarkForOne) {
  EXPECT_TRUE(matches("a*c", "ac"));
  EXPECT_TRUE(matches("a*c*e", "abcbcde"));
  EXPECT_TRUE(matches("a?c", "abc"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_FALSE(matches("a?c", "ac"));
  EXPECT_FALSE(matches("a*c", "acd"));
  EXPECT_FALSE(matches("", "a"));
}

TEST(PatternTest, ManyStarsAreNoWorkForEver) {
  EXPECT_FALSE(matches("*a*a*a*a*a*a*a*a*a*b", std::string(2000, 'a')));
}

TEST(OperatorPatternTest, TheNamespaceMayBeLeftOut) {
  EXPECT_TRUE(matches_operator("mm", "aten::mm"));
  EXPECT_TRUE(matches_operator("mm", "other::mm"));
  EXPECT_FALSE(matches_operator("other::mm", "aten::mm"));
}

TEST(OperatorPatternTest, TheOverloadMayBeLeftOut) {
  EXPECT_TRUE(matches_operator("add", "aten::add.Tensor"));
  EXPECT_TRUE(matches_operator("aten::add", "aten::add.Scalar"));
  EXPECT_TRUE(matches_operator("add.Tensor", "aten::add.Tensor"));
  EXPECT_FALSE(matches_operator("add.Tensor", "aten::add.Scalar"));
}

TEST(OperatorPatternTest, ANameIsNoPrefix) {
  EXPECT_FALSE(matches_operator("add", "aten::addmm"));
  EXPECT_FALSE(matches_operator("add", "aten::add_.Tensor"));
  EXPECT_FALSE(matches_operator("mm", "aten::addmm"));
}

TEST(OperatorPatternTest, APatternNamesAFamily) {
  EXPECT_TRUE(matches_operator("*softmax*", "aten::_log_softmax"));
  EXPECT_TRUE(matches_operator("aten::*mm", "aten::addmm"));
  EXPECT_FALSE(matches_operator("other::*", "aten::addmm"));
}

TEST(ModulePatternTest, AModuleIsNamedByItsPathOrTheEndOfIt) {
  for (const char* pattern : {"layers.3.mlp", "3.mlp", "mlp", "*.mlp", "layers.*.mlp", "m?p"})
    EXPECT_TRUE(matches_module(pattern, "layers.3.mlp")) << pattern;
  for (const char* pattern : {"lp", "mlp.up", "layers.4.mlp", "attention"})
    EXPECT_FALSE(matches_module(pattern, "layers.3.mlp")) << pattern;
}

TEST(ModulePatternTest, AModuleHasWhatIsInIt) {
  EXPECT_TRUE(matches_module("mlp", "layers.3.mlp.up"));
  EXPECT_TRUE(matches_module("*.mlp.*", "layers.3.mlp.up"));
  EXPECT_TRUE(matches_module("*.mlp.*", "mlp.up"));
  EXPECT_FALSE(matches_module("*.mlp.*", "mlp"));
}

TEST(ModulePatternTest, TheOutermostModuleHasNoName) {
  EXPECT_TRUE(matches_module("*", ""));
  EXPECT_FALSE(matches_module("mlp", ""));
}

}  // namespace
}  // namespace remat::policy
