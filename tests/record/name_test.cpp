// Values that the user names: what policies see of it, and what becomes of the value.

#include "remat/name.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

const Between kNothing = [](const Tensors&) {};

/// tanh's result is named, and autograd saves it before and after it has the name.
at::Tensor named_block(const Tensors& in) {
  const auto hidden = name(in[0].mm(in[1]).tanh(), "hidden");
  return hidden.exp().mm(in[1]).sin() * hidden;
}

Stats train_with(const policy::Policy& policy) {
  return expect_replayed_as_plain(named_block, {leaf(), leaf({4, 4}, 2)}, kNothing,
                                  {.policy = policy});
}

TEST(NameTest, OutsideOfRegionsNothingHappens) {
  const auto x = leaf();
  const auto version = x._version();
  EXPECT_TRUE(name(x, "x").is_same(x));
  EXPECT_EQ(x._version(), version);
}

TEST(NameTest, ANamedValueIsKeptByItsName) {
  const auto kept = train_with(policy::names({"hidden"}));
  const auto dropped = train_with(policy::nothing_saveable());
  EXPECT_LT(kept.ops_replayed, dropped.ops_replayed);
  // tanh, exp and mul save it.
  EXPECT_EQ(kept.kept_by_reason.at("policy"), 2 * 64);
  EXPECT_EQ(kept.bytes_dropped, dropped.bytes_dropped - 2 * 64);
}

TEST(NameTest, AnotherNameKeepsNothing) {
  EXPECT_EQ(train_with(policy::names({"other"})).kept_by_reason.at("policy"), 0);
}

TEST(NameTest, WithoutItsNameAllButTheValueIsKept) {
  const auto all = policy::everything_saveable() - policy::names({"hidden"});
  const auto stats = train_with(all);
  EXPECT_EQ(stats.bytes_dropped, 2 * 64);
  EXPECT_EQ(stats.ops_replayed, 1);  // tanh, from the product that is kept
}

TEST(NameTest, AViewNamesTheValueThatItShows) {
  const auto forward = [](const Tensors& in) {
    const auto y = in[0].exp();
    name(y.view({2, 8}), "y");
    return y.sin();
  };
  const auto stats =
      expect_same_as_plain(forward, {leaf()}, kNothing, {.policy = policy::names({"y"})});
  EXPECT_EQ(stats.ops_replayed, 0);
}

TEST(NameTest, ManyValuesMayHaveOneNameAndAValueSeveral) {
  const auto forward = [](const Tensors& in) {
    const auto y = name(name(in[0].exp(), "first"), "both");
    return name(y.sin().exp(), "both").tanh();
  };
  const auto kept = [&](const policy::Policy& policy) {
    return expect_same_as_plain(forward, {leaf()}, kNothing, {.policy = policy})
        .kept_by_reason.at("policy");
  };
  EXPECT_EQ(kept(policy::names({"both"})), 3 * 64);  // exp twice, and sin saves the first
  EXPECT_EQ(kept(policy::names({"both"}) - policy::names({"first"})), 64);
}

TEST(NameTest, ANameGoesToTheValueThatTheBufferHoldsNow) {
  const auto forward = [](const Tensors& in) {
    auto y = name(in[0] * 2, "before");
    y.exp_();
    return name(y, "after").sin();
  };
  const auto stats =
      expect_same_as_plain(forward, {leaf()}, kNothing, {.policy = policy::names({"after"})});
  EXPECT_EQ(stats.kept_by_reason.at("policy"), 2 * 64);  // exp_ and sin save it
  EXPECT_EQ(stats.ops_replayed, 0);
}

TEST(NameTest, WhatNoOperatorOfTheRegionMadeIsHeldWhateverItsName) {
  const auto forward = [](const Tensors& in) { return name(in[0], "x").exp().sin(); };
  const auto policy = policy::everything_saveable() - policy::names({"x"});
  expect_same_as_plain(forward, {leaf()}, kNothing, {.policy = policy});
}

TEST(NameTest, TheResultOfARegionIsNamedInTheRegionAround) {
  const auto x = leaf();
  Region outer({.policy = policy::names({"out"})});
  const auto y = name(checkpoint([&] { return x.exp().sin(); }), "out");
  const auto loss = y.exp().sum();
  outer.close();
  EXPECT_EQ(outer.held_bytes(), 64);  // x is a parameter
}

TEST(NameTest, ATapeShowsNames) {
  const auto x = leaf();
  Region region;
  const auto y = name(x.exp(), "y");
  const auto loss = y.sin().sum();
  region.close();
  const auto text = tape::to_text(region.tape());
  EXPECT_NE(text.find("\nnamed %1  y\n"), std::string::npos) << text;
  EXPECT_NE(tape::to_json(region.tape()).find("\"name\": \"y\""), std::string::npos);
}

TEST(NameTest, AnEmptyNameIsAnError) { EXPECT_THROW(name(leaf(), ""), std::invalid_argument); }

}  // namespace
}  // namespace remat::testing
