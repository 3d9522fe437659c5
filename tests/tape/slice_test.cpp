#include "remat/tape/slice.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/support/tape_literal.h"

namespace remat::tape {
namespace {

using testing::TapeLiteral;

/// The operators that must run for the named values.
std::string slice_of(const TapeLiteral& literal, std::string_view wanted,
                     std::string_view at_hand = "") {
  return literal.ops(slice(literal.tape, literal.values(wanted), literal.at_hand(at_hand)));
}

/// Of what the replay makes when backward asks for the saved `name`, what is held afterwards; all
/// other saved tensors are still pending.
std::string held_after_asking(const TapeLiteral& literal, std::string_view name) {
  const auto asked = literal.saved(name);
  const auto at_hand = literal.at_hand("");
  std::vector<SavedId> pending;
  for (SavedId id = 0; id < literal.tape.saved().size(); ++id) {
    if (id != asked) pending.push_back(id);
  }
  const auto run = slice(literal.tape, literal.values(name), at_hand);
  auto held = held_after(literal.tape, run, literal.tape.saved()[asked].region, pending, at_hand);
  for (ValueId value = 0; value < held.size(); ++value) {
    const auto producer = literal.tape.value(value).producer;
    held[value] = held[value] && std::count(run.begin(), run.end(), producer) != 0;
  }
  return literal.names(held);
}

TEST(SliceTest, FollowsProducersBackToTheSources) {
  EXPECT_EQ(slice_of(TapeLiteral("b = f(a); c = g(b); d = h(c)"), "c"), "f g");
}

TEST(SliceTest, LeavesOutWhatNobodyWants) {
  EXPECT_EQ(slice_of(TapeLiteral("b = f(a); c = g(a); d = h(b)"), "d"), "f h");
}

TEST(SliceTest, RunsASharedProducerOnce) {
  EXPECT_EQ(slice_of(TapeLiteral("b = f(a); c = g(b); d = h(b, c)"), "d"), "f g h");
}

TEST(SliceTest, StopsAtValuesAtHand) {
  const TapeLiteral literal("b = f(a); c = g(b); d = h(c)");
  EXPECT_EQ(slice_of(literal, "d", "b"), "g h");
  EXPECT_EQ(slice_of(literal, "d", "d"), "");
}

TEST(SliceTest, AValueAtHandIsNoReasonToSkipItsSiblings) {
  EXPECT_EQ(slice_of(TapeLiteral("b, c = f(a); d = g(b, c)"), "d", "b"), "f g");
}

TEST(SliceTest, WantedSourcesNeedNothing) { EXPECT_EQ(slice_of(TapeLiteral("b = f(a)"), "a"), ""); }

TEST(SliceTest, AnOldVersionDoesNotNeedTheWriteAfterIt) {
  const TapeLiteral literal("b = f(a); g(b!); c = h(b)");
  EXPECT_EQ(slice_of(literal, "b.0"), "f");
  EXPECT_EQ(slice_of(literal, "b"), "f g");
  EXPECT_EQ(slice_of(literal, "c"), "f g h");
}

TEST(SliceTest, AnOverwriteNeedsNothingOfWhatItReplaces) {
  EXPECT_EQ(slice_of(TapeLiteral("b = f(a); g(&b, x); c = h(b)"), "c"), "g h");
}

TEST(SliceTest, SeveralWantedValuesAreOneSlice) {
  EXPECT_EQ(slice_of(TapeLiteral("b = f(a); c = g(b); d = h(b)"), "d c"), "f g h");
}

TEST(SliceTest, AHundredThousandNodesDoNotOverflowTheStack) {
  constexpr NodeId kNodes = 100'000;
  TapeLiteral literal("v = f(a)");
  const auto call = literal.tape.node(0).call;
  ValueId last = literal.value("v");
  while (literal.tape.nodes() < kNodes) {
    const BufferId buffer = literal.tape.add_buffer(16);
    const NodeId id = literal.tape.add_node(call, kOutermost, kNone, {&last, 1}, {&buffer, 1});
    last = literal.tape.results(id)[0];
  }
  literal.tape.add_saved(last, kOutermost, 16);
  const auto nothing = literal.at_hand("");
  const auto nodes = slice(literal.tape, {&last, 1}, nothing);
  EXPECT_EQ(nodes.size(), kNodes);
  const SavedId pending = 0;
  const auto held = held_after(literal.tape, nodes, kOutermost, {&pending, 1}, nothing);
  EXPECT_TRUE(held[last]);
}

// ---- held_after, rule 1: the region that asked, and directly in those around it
// --------------------

TEST(HeldAfterTest, NothingIsHeldWithNothingPending) {
  EXPECT_EQ(held_after_asking(TapeLiteral("b = f(a); c = g(b); save c"), "c"), "");
}

TEST(HeldAfterTest, PendingSavedTensorsAreHeld) {
  EXPECT_EQ(held_after_asking(TapeLiteral("b = f(a); save b; c = g(b); save c"), "c"), "b");
}

TEST(HeldAfterTest, WhatTheSliceOfAPendingOneStillReadsIsHeld) {
  const TapeLiteral literal("b = f(a); c = g(b); save c; d = h(b); save d");
  EXPECT_EQ(held_after_asking(literal, "c"), "b");
}

TEST(HeldAfterTest, WhatOnlyThisReplayReadsIsNot) {
  const TapeLiteral literal("b = f(a); c = g(b); save c; d = h(c); e = k(d); save e");
  EXPECT_EQ(held_after_asking(literal, "e"), "c");
}

TEST(HeldAfterTest, SavedTensorsDirectlyInARegionAroundAreHeld) {
  const TapeLiteral literal("region 1 in 0; b = f(a); save b; c = g(b) @1; save c @1");
  EXPECT_EQ(held_after_asking(literal, "c"), "b");
}

// ---- rule 2: of a sibling only the boundary
// --------------------------------------------------------

TEST(HeldAfterTest, TheInsideOfASiblingIsNotHeld) {
  const TapeLiteral literal(
      "region 1 in 0; b = f(a) @1; save b @1; c = g(b) @1;"
      "region 2 in 0; d = h(c) @2; save d @2");
  EXPECT_EQ(held_after_asking(literal, "d"), "");
}

TEST(HeldAfterTest, WhatASiblingReadsFromAnotherIsHeld) {
  const TapeLiteral literal(
      "region 1 in 0; b = f(a) @1; save b @1; c = g(b) @1;"
      "region 2 in 0; d = h(c) @2; save d @2; e = k(d) @2;"
      "region 3 in 0; z = l(e) @3; save z @3");
  EXPECT_EQ(held_after_asking(literal, "z"), "c");
}

TEST(HeldAfterTest, WhatASiblingSavesOfAnotherIsItsBoundary) {
  const TapeLiteral literal(
      "region 1 in 0; b = f(a) @1; c = g(b) @1;"
      "region 2 in 0; save c @2; d = h(c) @2;"
      "region 3 in 0; z = l(d) @3; save z @3");
  EXPECT_EQ(held_after_asking(literal, "z"), "c");
}

TEST(HeldAfterTest, BoundariesInsideASiblingAreItsInside) {
  const TapeLiteral literal(
      "region 1 in 0;"
      "region 2 in 1; b = f(a) @2; save b @2; c = g(b) @2;"
      "region 3 in 1; d = h(c) @3; save d @3; e = k(d) @3;"
      "region 4 in 0; z = l(e) @4; save z @4");
  EXPECT_EQ(held_after_asking(literal, "z"), "");
}

TEST(HeldAfterTest, BoundariesOfSiblingsInsideTheRegionThatAskedAroundAreHeld) {
  const TapeLiteral literal(
      "region 1 in 0;"
      "region 2 in 1; b = f(a) @2; save b @2; c = g(b) @2;"
      "region 3 in 1; d = h(c) @3; save d @3; e = k(d) @3;"
      "region 4 in 1; z = l(e) @4; save z @4");
  EXPECT_EQ(held_after_asking(literal, "z"), "c");
}

TEST(HeldAfterTest, ARegionThatAsksHoldsNothingOfTheRegionsInsideIt) {
  const TapeLiteral literal("region 1 in 0; b = f(a) @1; save b @1; c = g(b) @1; d = h(c); save d");
  EXPECT_EQ(held_after_asking(literal, "d"), "");
}

TEST(HeldAfterTest, AHandleThatIsAtHandNeedsNothingMore) {
  const TapeLiteral literal("b = f(a); c = g(b); save c; d = h(b); save d");
  const std::vector<SavedId> pending = {literal.saved("d")};
  const auto at_hand = literal.at_hand("d");
  const auto run = slice(literal.tape, literal.values("c"), at_hand);
  const auto held = held_after(literal.tape, run, kOutermost, pending, at_hand);
  EXPECT_FALSE(held[literal.value("b")]);
}

}  // namespace
}  // namespace remat::tape
