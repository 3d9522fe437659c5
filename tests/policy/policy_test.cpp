#include "remat/policy/policy.h"

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace remat::policy {
namespace {

bool keeps(const Policy& policy, std::string_view op) { return policy({op, 16}) == Decision::keep; }

/// What the error says that `call` throws.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no std::invalid_argument";
}

TEST(PolicyTest, EverythingSaveableKeepsAnyOperator) {
  EXPECT_TRUE(keeps(everything_saveable(), "aten::exp"));
}

TEST(PolicyTest, NothingSaveableKeepsNoOperator) {
  EXPECT_FALSE(keeps(nothing_saveable(), "aten::mm"));
}

TEST(PolicyTest, APolicyIsFoundByItsName) {
  EXPECT_EQ(&by_name("everything_saveable"), &everything_saveable());
  EXPECT_EQ(by_name("nothing_saveable").name(), "nothing_saveable");
}

TEST(PolicyTest, AnUnknownNameIsAnErrorThatListsTheNames) {
  const auto error = error_of([] { by_name("dots"); });
  EXPECT_NE(error.find("\"dots\""), std::string::npos) << error;
  EXPECT_NE(error.find("everything_saveable and nothing_saveable"), std::string::npos) << error;
}

TEST(KeepOpsTest, KeepsTheNamedOperatorsOnly) {
  const auto policy = keep_ops({"aten::mm", "aten::addmm"});
  EXPECT_TRUE(keeps(policy, "aten::mm"));
  EXPECT_TRUE(keeps(policy, "aten::addmm"));
  EXPECT_FALSE(keeps(policy, "aten::bmm"));
}

TEST(KeepOpsTest, ANameMayLeaveOutTheNamespace) {
  EXPECT_TRUE(keeps(keep_ops({"mm"}), "aten::mm"));
  EXPECT_TRUE(keeps(keep_ops({"mm"}), "other::mm"));
  EXPECT_FALSE(keeps(keep_ops({"other::mm"}), "aten::mm"));
}

TEST(KeepOpsTest, ANameMayLeaveOutTheOverload) {
  EXPECT_TRUE(keeps(keep_ops({"add"}), "aten::add.Tensor"));
  EXPECT_TRUE(keeps(keep_ops({"aten::add"}), "aten::add.Scalar"));
  EXPECT_TRUE(keeps(keep_ops({"add.Tensor"}), "aten::add.Tensor"));
  EXPECT_FALSE(keeps(keep_ops({"add.Tensor"}), "aten::add.Scalar"));
}

TEST(KeepOpsTest, ANameIsNoPrefix) {
  EXPECT_FALSE(keeps(keep_ops({"add"}), "aten::addmm"));
  EXPECT_FALSE(keeps(keep_ops({"add"}), "aten::add_.Tensor"));
  EXPECT_FALSE(keeps(keep_ops({"mm"}), "aten::addmm"));
}

TEST(KeepOpsTest, IsNamedByWhatItKeeps) {
  EXPECT_EQ(keep_ops({"mm", "bmm"}).name(), "keep_ops(mm, bmm)");
}

TEST(KeepOpsTest, AnEmptyListIsAnErrorThatShowsTheWay) {
  const auto error = error_of([] { keep_ops({}); });
  EXPECT_NE(error.find("keep_ops needs at least one operator name, for example \"mm\""),
            std::string::npos)
      << error;
}

TEST(KeepOpsTest, AnEmptyNameIsAnError) {
  const auto error = error_of([] { keep_ops({"mm", ""}); });
  EXPECT_NE(error.find("empty operator name"), std::string::npos) << error;
}

TEST(PolicyTest, ACopyDecidesTheSame) {
  const Policy original("large", [](const Facts& facts) {
    return facts.bytes > 100 ? Decision::keep : Decision::recompute;
  });
  for (const Policy& copy : std::vector<Policy>(2, original)) {
    EXPECT_EQ(copy.name(), "large");
    EXPECT_EQ(copy({"aten::mm", 200}), Decision::keep);
    EXPECT_EQ(copy({"aten::mm", 100}), Decision::recompute);
  }
}

}  // namespace
}  // namespace remat::policy
