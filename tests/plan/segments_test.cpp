#include "remat/plan/segments.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/plan/build_trace.h"

namespace remat::plan {
namespace {

using testing::BuildTrace;

/// A preamble with a table that all layers read, `layers` equal layers of four operators with a
/// residual connection, and a head.
Trace transformer(int layers) {
  BuildTrace build;
  const auto name = [&](std::string text) { build.document().ops.back().name = std::move(text); };
  const auto table = build.op(1, 4);
  name("table");
  auto x = build.op(1, 10);
  name("embed");
  for (int layer = 0; layer < layers; ++layer) {
    const auto q = build.op(1, 10, {x, table});
    name("q");
    const auto k = build.op(1, 10, {x});
    name("k");
    const auto y = build.op(1, 10, {q, k});
    name("attend");
    x = build.op(1, 10, {x, y});
    name("add");
  }
  build.op(1, 1, {x});
  name("head");
  build.step(0, {x});
  return build.trace();
}

TEST(SegmentsTest, FindsTheLayersOfATransformer) {
  const Trace trace = transformer(12);
  const auto found = segments_of(trace);
  EXPECT_TRUE(found.global[0]) << "the table is read everywhere and crosses everywhere";
  ASSERT_EQ(found.layers.size(), 14U) << "the preamble, twelve layers, the head";
  EXPECT_EQ(found.layers[1].first, 2);
  EXPECT_EQ(found.layers[1].end, 6);
  EXPECT_EQ(found.layers[1].out, found.layers[2].in);
}

TEST(SegmentsTest, CoverEveryOperatorOnce) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const Trace trace = testing::random_trace(seed, 20);
    const auto found = segments_of(trace);
    for (const auto* segments : {&found.fine, &found.layers}) {
      OpId next = 0;
      for (const Segment& segment : *segments) {
        ASSERT_EQ(segment.first, next) << "seed " << seed;
        ASSERT_GT(segment.end, segment.first);
        next = segment.end;
      }
      ASSERT_EQ(next, trace.ops());
    }
  }
}

TEST(SegmentsTest, ExactlyOneValueCrossesACut) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const Trace trace = testing::random_trace(seed, 20);
    const auto found = segments_of(trace);
    for (const Segment& segment : found.fine) {
      if (segment.out == kNone) continue;
      for (ValueId value = 0; value < trace.values(); ++value) {
        const bool crosses = trace.producer(value) < segment.end &&
                             trace.last_touch(value) >= segment.end &&
                             found.global[static_cast<size_t>(value)] == 0;
        ASSERT_EQ(crosses, value == segment.out) << "seed " << seed << ", value " << value;
      }
    }
  }
}

TEST(SegmentsTest, BoundarySetsThinOutTheLayers) {
  const auto sets = boundary_sets(segments_of(transformer(12)));
  EXPECT_TRUE(sets[0].empty());
  EXPECT_EQ(sets[2].size(), 13U);
  EXPECT_EQ(sets[3].size(), 6U);
}

}  // namespace
}  // namespace remat::plan
