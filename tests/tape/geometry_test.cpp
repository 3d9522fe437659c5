#include "remat/tape/geometry.h"

#include <gtest/gtest.h>

namespace remat::tape {
namespace {

Geometry floats(std::vector<int64_t> extents, int64_t offset = 0) {
  Geometry geometry;
  geometry.dtype = {6, 4, "float32"};
  geometry.extents = std::move(extents);
  geometry.offset = offset;
  return geometry;
}

TEST(GeometryTest, AScalarHasOneElement) {
  const auto scalar = floats({});
  EXPECT_EQ(scalar.elements(), 1);
  EXPECT_EQ(scalar.bytes(), 4);
  EXPECT_EQ(scalar.reach(), 4);
}

TEST(GeometryTest, BytesCountElementsAndReachCountsHolesToo) {
  const auto column = floats({3, 8}, 2);  // every 8th of 3 elements, from the third on
  EXPECT_EQ(column.bytes(), 12);
  EXPECT_EQ(column.reach(), 4 * (2 + 2 * 8 + 1));
}

TEST(GeometryTest, NothingReachesNowhere) { EXPECT_EQ(floats({4, 0, 1, 1}, 7).reach(), 0); }

TEST(GeometryTest, AnExpandedTensorReachesOnce) { EXPECT_EQ(floats({100, 0}).reach(), 4); }

TEST(GeometryTest, AFreshTensorIsPrintedByTypeAndSizes) {
  EXPECT_EQ(to_text(floats({4, 8, 8, 1})), "float32[4, 8]");
  EXPECT_EQ(to_text(floats({})), "float32[]");
}

TEST(GeometryTest, AStrideThatIsNeverTakenIsNotPrinted) {
  EXPECT_EQ(to_text(floats({1, 8, 99, 1})), "float32[1, 8]");
}

TEST(GeometryTest, AViewIsPrintedWithStridesAndOffset) {
  EXPECT_EQ(to_text(floats({8, 4, 1, 8})), "float32[8, 4] strides [1, 8]");
  EXPECT_EQ(to_text(floats({4, 1}, 2)), "float32[4] strides [1] offset 2");
}

TEST(GeometryTest, LazyConjugationAndNegationArePrinted) {
  auto geometry = floats({2, 1});
  geometry.conjugate = true;
  geometry.negative = true;
  EXPECT_EQ(to_text(geometry), "float32[2] conj neg");
}

TEST(GeometryTest, LazyConjugationTellsTwoViewsApart) {
  const auto plain = floats({2, 1});
  auto conjugate = plain;
  conjugate.conjugate = true;
  EXPECT_FALSE(plain == conjugate);
}

}  // namespace
}  // namespace remat::tape
