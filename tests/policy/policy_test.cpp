#include "remat/policy/policy.h"

#include <vector>

#include <gtest/gtest.h>

#include "remat/policy/rules.h"
#include "tests/policy/ask.h"

namespace remat::policy {
namespace {

const Policy kA = keep_ops({"a"});
const Policy kB = keep_ops({"b"});
const Policy kC = keep_ops({"c"});

TEST(PolicyTest, EverythingSaveableKeepsAnyOperator) {
  EXPECT_TRUE(keeps(everything_saveable(), "aten::exp"));
}

TEST(PolicyTest, NothingSaveableKeepsNoOperator) {
  EXPECT_FALSE(keeps(nothing_saveable(), "aten::mm"));
}

TEST(PolicyTest, ACopyDecidesTheSame) {
  const Policy original("large", [](const Facts& facts) {
    return facts.bytes > 100 ? Decision::keep : Decision::recompute;
  });
  for (const Policy& copy : std::vector<Policy>(2, original)) {
    EXPECT_EQ(copy.name(), "large");
    EXPECT_EQ(copy({.op = "aten::mm", .bytes = 200}), Decision::keep);
    EXPECT_EQ(copy({.op = "aten::mm", .bytes = 100}), Decision::recompute);
  }
}

TEST(PolicyTest, OrKeepsWhatEitherKeeps) {
  const auto policy = kA | kB;
  EXPECT_TRUE(keeps(policy, "x::a"));
  EXPECT_TRUE(keeps(policy, "x::b"));
  EXPECT_FALSE(keeps(policy, "x::c"));
}

TEST(PolicyTest, AndKeepsWhatBothKeep) {
  const auto policy = (kA | kB) & (kB | kC);
  EXPECT_TRUE(keeps(policy, "x::b"));
  EXPECT_FALSE(keeps(policy, "x::a"));
  EXPECT_FALSE(keeps(policy, "x::c"));
}

TEST(PolicyTest, MinusKeepsWhatTheFirstKeepsAndTheSecondDoesNot) {
  const auto policy = (kA | kB) - (kB | kC);
  EXPECT_TRUE(keeps(policy, "x::a"));
  EXPECT_FALSE(keeps(policy, "x::b"));
  EXPECT_FALSE(keeps(policy, "x::c"));
}

TEST(PolicyTest, TheNameOfACompositionHasTheBracketsItNeeds) {
  EXPECT_EQ((kA | kB | kC).name(), "keep_ops(a) | keep_ops(b) | keep_ops(c)");
  EXPECT_EQ((kA & (kB | kC)).name(), "keep_ops(a) & (keep_ops(b) | keep_ops(c))");
  EXPECT_EQ(((kA & kB) | kC).name(), "keep_ops(a) & keep_ops(b) | keep_ops(c)");
  EXPECT_EQ((kA - kB - kC).name(), "keep_ops(a) - keep_ops(b) - keep_ops(c)");
  EXPECT_EQ((kA - (kB - kC)).name(), "keep_ops(a) - (keep_ops(b) - keep_ops(c))");
}

TEST(PolicyTest, ACompositionWantsWhatItsPartsWant) {
  const auto wants = ((names({"x"}) | kA) & every(2)).wants();
  EXPECT_TRUE(wants.names && wants.call);
  EXPECT_FALSE(wants.module);
  EXPECT_TRUE((kA - modules({"mlp"})).wants().module);
}

TEST(PolicyTest, AFunctionOfItsOwnWantsAllUnlessItSaysOtherwise) {
  const auto rule = [](const Facts&) { return Decision::keep; };
  EXPECT_TRUE(Policy("mine", rule).wants().names);
  EXPECT_FALSE(Policy("mine", rule, {}).wants().names);
}

}  // namespace
}  // namespace remat::policy
