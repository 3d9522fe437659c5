#include "remat/tape/tape.h"

#include <sstream>

#include <gtest/gtest.h>

#include "tests/support/tape_literal.h"

namespace remat::tape {
namespace {

using testing::TapeLiteral;

TEST(TapeTest, ASourceHasNoProducer) {
  const TapeLiteral literal("b = f(a)");
  EXPECT_EQ(literal.tape.value(literal.value("a")).producer, kNone);
  EXPECT_EQ(literal.tape.value(literal.value("b")).producer, 0);
}

TEST(TapeTest, OperandsAreReadsThenWritesThenResults) {
  const TapeLiteral literal("c = f(a, b!)");
  EXPECT_EQ(literal.tape.reads(0)[1], literal.value("b.0"));
  ASSERT_EQ(literal.tape.writes(0).size(), 1);
  EXPECT_EQ(literal.tape.writes(0)[0], literal.value("b"));
  ASSERT_EQ(literal.tape.results(0).size(), 1);
  EXPECT_EQ(literal.tape.results(0)[0], literal.value("c"));
}

TEST(TapeTest, AWriteMakesTheNextVersionOfTheSameBuffer) {
  const TapeLiteral literal("b = f(a); g(b!); h(b!)");
  const auto& first = literal.tape.value(literal.value("b.0"));
  const auto& last = literal.tape.value(literal.value("b"));
  EXPECT_EQ(last.buffer, first.buffer);
  EXPECT_EQ(first.version, 0);
  EXPECT_EQ(last.version, 2);
}

TEST(TapeTest, AnOverwriteIsAVersionLikeAnyWrite) {
  const TapeLiteral literal("b = f(a); g(b!); h(&b)");
  const auto& last = literal.tape.value(literal.value("b"));
  EXPECT_EQ(last.buffer, literal.tape.value(literal.value("b.0")).buffer);
  EXPECT_EQ(last.version, 2);
}

TEST(TapeTest, ReadersOfAnOldVersionKeepReadingIt) {
  const TapeLiteral literal("b = f(a); c = g(b); h(b!); d = k(b)");
  EXPECT_EQ(literal.tape.reads(1)[0], literal.value("b.0"));
  EXPECT_EQ(literal.tape.reads(3)[0], literal.value("b"));
}

TEST(TapeTest, ARegionEnclosesItselfAndWhatLiesInIt) {
  const TapeLiteral literal("region 1 in 0; region 2 in 1; region 3 in 0");
  EXPECT_TRUE(literal.tape.encloses(1, 1));
  EXPECT_TRUE(literal.tape.encloses(1, 2));
  EXPECT_TRUE(literal.tape.encloses(kOutermost, 3));
  EXPECT_FALSE(literal.tape.encloses(2, 1));
  EXPECT_FALSE(literal.tape.encloses(1, 3));
}

TEST(TapeTest, TheCommonRegionIsTheSmallestThatHoldsBoth) {
  const TapeLiteral literal("region 1 in 0; region 2 in 1; region 3 in 1; region 4 in 0");
  EXPECT_EQ(literal.tape.common(2, 3), 1);
  EXPECT_EQ(literal.tape.common(2, 1), 1);
  EXPECT_EQ(literal.tape.common(3, 4), kOutermost);
  EXPECT_EQ(literal.tape.common(2, 2), 2);
}

TEST(TapeTest, OwnBytesOfANodeAreUnderAHundred) {
  std::ostringstream chain;
  for (int i = 0; i < 1024; ++i) chain << "v" << i + 1 << " = f(v" << i << ");";
  const TapeLiteral literal(chain.str());
  EXPECT_LT(literal.tape.own_bytes() / 1024, 100);
}

// ---- prune
// -----------------------------------------------------------------------------------------

/// Prunes to the named operators and values.
Tape::Renumbering prune_to(TapeLiteral& literal, std::string_view ops, std::string_view values) {
  std::vector<bool> nodes(literal.tape.nodes(), false);
  for (NodeId id = 0; id < nodes.size(); ++id) {
    nodes[id] = ops.find(literal.tape.node(id).call->op) != std::string_view::npos;
  }
  std::vector<bool> flags(literal.tape.values(), false);
  for (const ValueId value : literal.values(values)) flags[value] = true;
  return literal.tape.prune(nodes, flags);
}

TEST(TapePruneTest, DropsNodesValuesAndBuffers) {
  TapeLiteral literal("b = f(a); c = g(b); d = h(a)");
  prune_to(literal, "h", "a d");
  EXPECT_EQ(literal.tape.nodes(), 1);
  EXPECT_EQ(literal.tape.values(), 2);
  EXPECT_EQ(literal.tape.buffers(), 2);
  EXPECT_EQ(literal.tape.node(0).call->op, "h");
}

TEST(TapePruneTest, TellsWhatEveryValueBecame) {
  TapeLiteral literal("b = f(a); d = h(a)");
  const auto renumbered = prune_to(literal, "h", "a d");
  EXPECT_EQ(renumbered.values[literal.value("a")], 0);
  EXPECT_EQ(renumbered.values[literal.value("b")], kNone);
  EXPECT_EQ(renumbered.values[literal.value("d")], 1);
}

TEST(TapePruneTest, OperandsAndProducersFollow) {
  TapeLiteral literal("b = f(a); d = h(a); e = k(d)");
  prune_to(literal, "h k", "a d e");
  EXPECT_EQ(literal.tape.reads(1)[0], literal.tape.results(0)[0]);
  EXPECT_EQ(literal.tape.value(literal.tape.results(1)[0]).producer, 1);
}

TEST(TapePruneTest, SavedTensorsKeepTheirIdsAndFollowTheirValues) {
  TapeLiteral literal("b = f(a); save b; d = h(a); save d");
  const auto renumbered = prune_to(literal, "h", "a d");
  ASSERT_EQ(literal.tape.saved().size(), 2);
  EXPECT_EQ(literal.tape.saved()[0].value, kNone);
  EXPECT_EQ(literal.tape.saved()[1].value, renumbered.values[literal.value("d")]);
  EXPECT_EQ(literal.tape.saved()[1].after, 1);  // one node is left that was recorded before it
}

TEST(TapePruneTest, NamesFollowTheirValuesAndGoWithThem) {
  TapeLiteral literal("b = f(a); d = h(a)");
  literal.tape.add_name(literal.value("b"), "dropped");
  literal.tape.add_name(literal.value("d"), "left");
  const auto renumbered = prune_to(literal, "h", "a d");
  ASSERT_EQ(literal.tape.names().size(), 1);
  EXPECT_EQ(literal.tape.names()[0].text, "left");
  EXPECT_EQ(literal.tape.names()[0].value, renumbered.values[literal.value("d")]);
}

TEST(TapePruneTest, ABufferLivesAsLongAsOneOfItsVersions) {
  TapeLiteral literal("b = f(a); g(b!); c = h(b)");
  const auto renumbered = prune_to(literal, "h", "b c");
  EXPECT_EQ(literal.tape.buffers(), 2);
  EXPECT_EQ(literal.tape.value(renumbered.values[literal.value("b")]).version, 1);
}

TEST(TapePruneTest, ArgumentsWithoutContentStaySo) {
  TapeLiteral literal("b = f(a); c = g(_, a)");
  prune_to(literal, "g", "a c");
  EXPECT_EQ(literal.tape.reads(0)[0], kNone);
  EXPECT_NE(literal.tape.reads(0)[1], kNone);
}

TEST(TapePruneTest, RegionsKeepTheirIds) {
  TapeLiteral literal("region 1 in 0; region 2 in 0; b = f(a) @1; c = g(a) @2");
  prune_to(literal, "g", "a c");
  EXPECT_EQ(literal.tape.regions(), 3);
  EXPECT_EQ(literal.tape.node(0).region, 2);
}

TEST(TapePruneTest, DrawsAreRenumberedByTheCaller) {
  TapeLiteral literal("b = f(a) draw 0; c = g(a) draw 1; d = h(c)");
  literal.tape.renumber_draws(std::vector<DrawId>{kNone, 0});
  EXPECT_EQ(literal.tape.node(1).draw, 0);
  EXPECT_EQ(literal.tape.node(2).draw, kNone);
}

// ---- cut
// -------------------------------------------------------------------------------------------

/// The operators of each region, outermost first: "|f g|h" has nothing directly in the outermost
/// one.
std::string by_region(const TapeLiteral& literal) {
  std::string text;
  for (RegionId region = 0; region < literal.tape.regions(); ++region) {
    std::vector<NodeId> nodes;
    for (NodeId id = 0; id < literal.tape.nodes(); ++id) {
      if (literal.tape.node(id).region == region) nodes.push_back(id);
    }
    if (region != 0) text += '|';
    text += literal.ops(nodes);
  }
  return text;
}

TEST(TapeCutTest, EqualNodesMakeEqualSegments) {
  TapeLiteral literal("b = f(a); c = g(b); d = h(c); e = k(d)");
  literal.tape.cut(kOutermost, 2);
  EXPECT_EQ(by_region(literal), "|f g|h k");
}

TEST(TapeCutTest, SegmentsAreEvenInBytesNotInNodes) {
  TapeLiteral literal("b[64] = f(a); c[64] = g(a); d[8] = h(c); e[8] = k(d); z[8] = l(e)");
  literal.tape.cut(kOutermost, 2);
  EXPECT_EQ(by_region(literal), "|f|g h k l");
}

TEST(TapeCutTest, LittleCrossesACut) {
  TapeLiteral literal("b[9] = f(a); c[9] = g(b); d[1] = h(c); e[9] = k(d); z[9] = l(e)");
  literal.tape.cut(kOutermost, 2);
  EXPECT_EQ(by_region(literal), "|f g h|k l");
}

TEST(TapeCutTest, MakesNoMoreSegmentsThanAskedFor) {
  TapeLiteral literal("b = f(a); c = g(b); d = h(c); e = k(d); z[0] = l(e)");
  literal.tape.cut(kOutermost, 3);
  EXPECT_LE(literal.tape.regions(), 1 + 3);
}

TEST(TapeCutTest, MakesNoEmptySegments) {
  TapeLiteral literal("b = f(a); c = g(b)");
  literal.tape.cut(kOutermost, 10);
  EXPECT_EQ(by_region(literal), "|f|g");
}

TEST(TapeCutTest, RegionsInsideStayWhole) {
  TapeLiteral literal("region 1 in 0; b = f(a); c = g(b) @1; d = h(c) @1; e = k(d)");
  literal.tape.cut(kOutermost, 2);
  EXPECT_EQ(by_region(literal), "|g h|f|k");
}

TEST(TapeCutTest, SegmentsLieInTheRegionThatWasCut) {
  TapeLiteral literal("region 1 in 0; b = f(a) @1; c = g(b) @1");
  literal.tape.cut(1, 2);
  EXPECT_EQ(by_region(literal), "||f|g");
  EXPECT_EQ(literal.tape.parent(2), 1);
  EXPECT_EQ(literal.tape.parent(3), 1);
}

TEST(TapeCutTest, SavedTensorsLieWithTheNodeThatSavedThem) {
  TapeLiteral literal("b = f(a); save b; c = g(b); save b; save c");
  literal.tape.cut(kOutermost, 2);
  EXPECT_EQ(by_region(literal), "|f|g");
  EXPECT_EQ(literal.tape.saved()[0].region, 1);
  EXPECT_EQ(literal.tape.saved()[1].region, 2);
  EXPECT_EQ(literal.tape.saved()[2].region, 2);
}

TEST(TapeCutTest, SavedTensorsOfRegionsInsideStayThere) {
  TapeLiteral literal("region 1 in 0; b = f(a); c = g(b) @1; save c @1; d = h(c)");
  literal.tape.cut(kOutermost, 2);
  EXPECT_EQ(literal.tape.saved()[0].region, 1);
}

}  // namespace
}  // namespace remat::tape
