#include "remat/policy/jax.h"

#include <gtest/gtest.h>

#include "remat/policy/rules.h"
#include "tests/policy/ask.h"

namespace remat::policy {
namespace {

TEST(JaxTest, SaveOnlyTheseNames) {
  const auto policy = save_only_these_names({"a", "b"});
  EXPECT_TRUE(keeps_named(policy, {"a"}));
  EXPECT_FALSE(keeps_named(policy, {"c"}));
  EXPECT_FALSE(keeps_named(policy, {}));
}

TEST(JaxTest, SaveAnyNamesButThese) {
  const auto policy = save_any_names_but_these({"a"});
  EXPECT_TRUE(keeps_named(policy, {"c"}));
  EXPECT_FALSE(keeps_named(policy, {"a"}));
  EXPECT_FALSE(keeps_named(policy, {}));
}

TEST(JaxTest, SaveAnythingExceptTheseNames) {
  const auto policy = save_anything_except_these_names({"a"});
  EXPECT_TRUE(keeps_named(policy, {"c"}));
  EXPECT_TRUE(keeps_named(policy, {}));
  EXPECT_FALSE(keeps_named(policy, {"a"}));
}

TEST(JaxTest, WithoutNamesTheyMeanNoName) {
  EXPECT_FALSE(keeps_named(save_only_these_names({}), {"a"}));
  EXPECT_TRUE(keeps_named(save_any_names_but_these({}), {"a"}));
  EXPECT_FALSE(keeps_named(save_any_names_but_these({}), {}));
  EXPECT_TRUE(keeps_named(save_anything_except_these_names({}), {"a"}));
}

TEST(JaxTest, SaveFromBothPoliciesKeepsWhatEitherKeeps) {
  const auto policy = save_from_both_policies(keep_ops({"mm"}), keep_ops({"exp"}));
  EXPECT_TRUE(keeps(policy, "aten::mm"));
  EXPECT_TRUE(keeps(policy, "aten::exp"));
  EXPECT_FALSE(keeps(policy, "aten::sin"));
}

TEST(JaxTest, OffloadingIsRefusedWithTheWayOut) {
  const auto dots = error_of([] { refuse_offload("offload_dot_with_no_batch_dims"); });
  EXPECT_NE(dots.find("dots_with_no_batch_dims_saveable keeps the same"), std::string::npos);
  const auto names = error_of([] { refuse_offload("save_and_offload_only_these_names"); });
  EXPECT_NE(names.find("no host memory tier yet: names(...)"), std::string::npos);
  EXPECT_NO_THROW(refuse_offload("dots_saveable"));
}

}  // namespace
}  // namespace remat::policy
