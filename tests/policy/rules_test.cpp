#include "remat/policy/rules.h"

#include <gtest/gtest.h>

#include "tests/policy/ask.h"

namespace remat::policy {
namespace {

bool keeps_batched(const Policy& policy, int64_t batch) {
  tape::Geometry geometry;
  geometry.extents = {batch, 2, 2, 4, 2, 1};
  return policy({.op = "aten::bmm", .bytes = 16, .geometry = &geometry}) == Decision::keep;
}

bool keeps_in_module(const Policy& policy, std::string_view path) {
  return policy({.op = "aten::mm", .bytes = 16, .module = path}) == Decision::keep;
}

TEST(DotsTest, KeepsProductsAndConvolutions) {
  for (const char* op : {"aten::mm", "aten::addmm", "aten::addmm_", "aten::mm.out", "aten::bmm",
                         "aten::convolution", "aten::mkldnn_convolution"})
    EXPECT_TRUE(keeps(dots_saveable(), op)) << op;
}

TEST(DotsTest, KeepsNothingElse) {
  for (const char* op : {"aten::mul.Tensor", "aten::exp", "aten::addmm_like", "other::mm",
                         "aten::_convert_indices_from_csr_to_coo"})
    EXPECT_FALSE(keeps(dots_saveable(), op)) << op;
}

TEST(DotsTest, WithNoBatchDimsKeepsNoProductOfSeveralMatricesAndNoConvolution) {
  const auto& policy = dots_with_no_batch_dims_saveable();
  EXPECT_TRUE(keeps(policy, "aten::addmm"));
  EXPECT_FALSE(keeps_batched(policy, 8));
  EXPECT_TRUE(keeps_batched(policy, 1));  // as einsum multiplies two matrices
  EXPECT_FALSE(keeps(policy, "aten::convolution"));
}

TEST(KeepOpsTest, KeepsTheNamedOperatorsOnly) {
  const auto policy = keep_ops({"aten::mm", "aten::addmm"});
  EXPECT_TRUE(keeps(policy, "aten::mm"));
  EXPECT_TRUE(keeps(policy, "aten::addmm"));
  EXPECT_FALSE(keeps(policy, "aten::bmm"));
}

TEST(KeepOpsTest, IsNamedByWhatItKeeps) {
  EXPECT_EQ(keep_ops({"mm", "bmm"}).name(), "keep_ops(mm, bmm)");
}

TEST(KeepOpsTest, AnEmptyListIsAnErrorThatShowsTheWay) {
  const auto error = error_of([] { keep_ops({}); });
  EXPECT_EQ(error, "remat: keep_ops needs at least one operator name, for example \"mm\"");
}

TEST(KeepOpsTest, AnEmptyNameIsAnError) {
  EXPECT_EQ(error_of([] { keep_ops({"mm", ""}); }), "remat: keep_ops was given an empty name");
}

TEST(NamesTest, KeepsValuesThatHaveOneOfTheNames) {
  const auto policy = names({"attn_*", "mlp"});
  EXPECT_TRUE(keeps_named(policy, {"attn_out"}));
  EXPECT_TRUE(keeps_named(policy, {"other", "mlp"}));
  EXPECT_FALSE(keeps_named(policy, {"other"}));
  EXPECT_FALSE(keeps_named(policy, {}));
}

TEST(ModulesTest, KeepsWhatIsMadeInOneOfThem) {
  const auto policy = modules({"*.mlp", "norm"});
  EXPECT_TRUE(keeps_in_module(policy, "layers.3.mlp.up"));
  EXPECT_TRUE(keeps_in_module(policy, "norm"));
  EXPECT_FALSE(keeps_in_module(policy, "layers.3.attention"));
}

TEST(ModulesTest, IsAnErrorWhereNobodySaidWhichModuleRuns) {
  const auto error = error_of([] { keeps(modules({"mlp"}), "aten::mm"); });
  EXPECT_NE(error.find("the policy modules(mlp) asks which module runs"), std::string::npos)
      << error;
}

TEST(SizeTest, KeepsByTheBytesOfTheBuffer) {
  EXPECT_TRUE(keeps(at_least(16), "aten::exp"));
  EXPECT_FALSE(keeps(at_least(17), "aten::exp"));
  EXPECT_TRUE(keeps(at_most(16), "aten::exp"));
  EXPECT_FALSE(keeps(at_most(15), "aten::exp"));
  EXPECT_EQ(error_of([] { at_most(-1); }), "remat: at_most takes a number of bytes, not -1");
}

TEST(EveryTest, KeepsEachKthCall) {
  std::string kept;
  for (uint32_t call = 1; call <= 7; ++call)
    kept += every(3)({.op = "aten::mm", .call = call}) == Decision::keep ? 'k' : '.';
  EXPECT_EQ(kept, "..k..k.");
  EXPECT_FALSE(keeps(every(1), "aten::mm"));  // not counted
  EXPECT_EQ(error_of([] { every(0); }), "remat: every takes a number of 1 or more, not 0");
}

}  // namespace
}  // namespace remat::policy
