// A policy's decisions carried out: what it keeps is held and not replayed.

#include <stdexcept>
#include <thread>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "remat/record/recorder.h"
#include "remat/remat.h"
#include "tests/support/bytes.h"
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

TEST(RecordPolicyTest, ASmallKeptValueMayChangeAfterTheRegion) {
  at::Tensor kept;
  expect_same_as_plain(
      [&](const Tensors& in) {
        kept = in[0].mm(in[1]);
        return (kept + 1).exp().sin();
      },
      {leaf(), leaf({4, 4}, 2)}, [&](const Tensors&) { kept.detach().zero_(); },
      {.policy = policy::keep_ops({"mm"})});
}

TEST(RecordPolicyTest, ALargeKeptValueThatChangesAfterTheRegionIsAnError) {
  const auto x = leaf({200, 200});
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

/// x of 80,000 bytes, and what forward leaves alive of it in a region.
int64_t held_after(const Forward& forward, const policy::Policy& policy) {
  memory::install();
  const Tensors in = {leaf({20'000}), constant({20'000}, 2)};
  const Bytes bytes;
  Region region({.policy = policy});
  const auto loss = forward(in).sum();
  region.close();
  return bytes.live() - static_cast<int64_t>(loss.nbytes());
}

TEST(RecordPolicyTest, WhatNeitherBackwardNorAReplayNeedsIsNotHeld) {
  const Forward forward = [](const Tensors& in) { return (in[0] * 2 + in[1]).exp() - in[1]; };
  // exp saves its result; nothing needs the others any more.
  EXPECT_EQ(held_after(forward, policy::everything_saveable()), 80'000);
}

TEST(RecordPolicyTest, WhatAReplayNeedsIsHeldInsteadOfWhatItWasMadeFrom) {
  const Forward forward = [](const Tensors& in) { return (in[1] * 2 + in[0]).exp(); };
  EXPECT_EQ(held_after(forward, policy::nothing_saveable()), 0);  // the inputs are alive anyway
  EXPECT_EQ(held_after(forward, policy::keep_ops({"add"})), 80'000);
  EXPECT_EQ(held_after(forward, policy::keep_ops({"add", "exp"})), 80'000);
}

TEST(RecordPolicyTest, ALoopInAnOpenRegionDoesNotHoldAllThatAPolicyKeeps) {
  const auto x = constant({1 << 18});
  Region region({.policy = policy::everything_saveable()});
  const c10::AutoGradMode no_grad(false);
  for (int i = 0; i < 128; ++i) x.sin();
  EXPECT_LT(region.held_bytes(), int64_t{48} << 20);
}

TEST(RecordPolicyTest, DotsAreHeldWhereBackwardNeedsThem) {
  const Forward forward = [](const Tensors& in) {
    const auto x = in[0].view({200, 100});
    const auto w = in[1].view({100, 200}).slice(1, 0, 100);
    const auto needed = x.mm(w);              // by exp's replay
    const auto sum = needed.exp() + x.mm(w);  // of which addition needs nothing
    return sum;
  };
  EXPECT_EQ(held_after(forward, policy::dots_saveable()), 80'000);
}

TEST(RecordPolicyTest, EveryKthCallIsCountedForEachOperatorAndRegion) {
  const auto x = leaf();
  const auto block = [&] {
    Region inner({.policy = policy::keep_ops({"exp", "tanh"}) & policy::every(2)});
    static_cast<void>(x.exp().tanh().exp().tanh());
  };
  EXPECT_EQ(saved_by([&] {
              block();
              block();
            }),
            "recomputed 256, policy 256");
}

TEST(RecordPolicyTest, ModulesAreThoseThatTheRegionIsTold) {
  const auto x = leaf();
  Region region({.policy = policy::modules({"mlp"})});
  region.set_module("layers.0.attention");
  const auto y = x.exp();
  region.set_module("layers.0.mlp.up");
  const auto z = y.exp();
  region.set_module("layers.1.attention");
  const auto loss = z.exp().sum();
  region.close();
  EXPECT_EQ(region.held_bytes(), 64);
}

TEST(RecordPolicyTest, ARegionInsideKnowsTheModuleOfTheRegionAround) {
  const auto x = leaf();
  Region outer;
  outer.set_module("mlp");
  Region inner({.policy = policy::modules({"mlp"})});
  const auto y = x.exp().exp();
  inner.close();
  EXPECT_EQ(outer.held_bytes(), 2 * 64);
}

TEST(RecordPolicyTest, WhatAPolicyThrowsIsThrownWhereTheRegionCloses) {
  const auto x = leaf();
  Region region({.policy = policy::modules({"mlp"})});
  const auto y = x.exp();
  EXPECT_THROW(region.close(), std::invalid_argument);
  y.sum().backward();  // all was kept
  expect_same_bits(x.grad(), y, "the gradient");
}

TEST(RecordPolicyTest, APolicyIsAskedOnceAValueAndWithoutTheLock) {
  const auto x = leaf();
  std::vector<std::string> asked;
  record::Recording* recording = nullptr;
  const policy::Policy policy("logs", [&](const policy::Facts& facts) {
    asked.emplace_back(facts.op);
    std::thread([&] {
      const std::unique_lock lock(recording->mutex, std::try_to_lock);
      EXPECT_TRUE(lock.owns_lock());
    }).join();
    return policy::Decision::recompute;
  });
  Region region({.policy = policy});
  recording = record::Recorder::current()->recording().get();
  const auto loss = x.exp().sin().sum();
  region.close();
  EXPECT_EQ(asked, (std::vector<std::string>{"aten::exp", "aten::sin", "aten::sum"}));
}

}  // namespace
}  // namespace remat::testing
