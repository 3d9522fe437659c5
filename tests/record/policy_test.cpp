// A policy's decisions carried out: what it keeps is held and not replayed.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"
#include "tests/support/operator_log.h"

namespace remat::testing {
namespace {

at::Tensor block(const Tensors& in) { return in[0].mm(in[1]).exp().mm(in[1]).sin().exp(); }

const Between kNothing = [](const Tensors&) {};

TEST(RecordPolicyTest, EverythingKeptReplaysNothing) {
  const auto stats = expect_same_as_plain(block, {leaf(), leaf({4, 4}, 2)}, kNothing,
                                          {.policy = policy::everything_saveable()});
  EXPECT_EQ(stats.ops_replayed, 0);
  EXPECT_EQ(stats.bytes_dropped, 0);
}

TEST(RecordPolicyTest, NothingKeptKeepsInputsAndParameters) {
  const auto stats = expect_replayed_as_plain(block, {leaf(), leaf({4, 4}, 2)});
  EXPECT_EQ(stats.kept_by_reason.at("policy"), 0);
  EXPECT_EQ(stats.bytes_kept, stats.kept_by_reason.at("parameter"));
}

TEST(RecordPolicyTest, ANamedOperatorIsNotReplayed) {
  const auto x = leaf();
  const auto w = leaf({4, 4}, 2);
  Region region({.policy = policy::keep_ops({"mm"})});
  const auto loss = block({x, w}).sum();
  region.close();
  const OperatorLog log;
  loss.backward();
  EXPECT_EQ(log.count("aten::exp"), 2);
  // What ran is mm's backward: two products a product.
  EXPECT_EQ(log.count("aten::mm"), 4);
}

TEST(RecordPolicyTest, AKeptValueThatIsOverwrittenIsRecomputed) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto z = in[0].mm(in[1]);
        const auto before = (z + 1).exp();
        z.add_(1);
        return before * z.sin();
      },
      {leaf(), leaf({4, 4}, 2)}, kNothing, {.policy = policy::keep_ops({"mm"})});
}

TEST(RecordPolicyTest, AKeptValueThatChangesAfterTheRegionIsAnError) {
  const auto x = leaf();
  at::Tensor kept;
  Region region({.policy = policy::keep_ops({"mm"})});
  kept = x.mm(x);
  const auto loss = (kept + 1).exp().sum();
  region.close();
  kept.detach().zero_();
  try {
    loss.backward();
    ADD_FAILURE() << "no error";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("that is read by aten::add.Scalar in the region was changed"),
              std::string::npos);
  }
}

TEST(RecordPolicyTest, EachRegionHasItsOwn) {
  const auto x = leaf();
  EXPECT_EQ(saved_by([&] {
              const auto y = x.exp();
              const Region inner({.policy = policy::everything_saveable()});
              static_cast<void>(y.tanh());
            }),
            "recomputed 64, policy 64");
}

}  // namespace
}  // namespace remat::testing
