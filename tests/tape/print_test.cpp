#include "remat/tape/print.h"

#include <gtest/gtest.h>

#include "tests/support/tape_literal.h"

namespace remat::tape {
namespace {

using testing::TapeLiteral;

/// A bit of everything: a nested region, an in-place operator, an overwrite, arguments, a draw.
const TapeLiteral& example() {
  static const TapeLiteral literal(R"(
      region 1 in 0
      b[8] = aten::mul.Tensor(x, w)
      c[8] = aten::dropout(b, "p=0.5") @1 draw 0
      aten::relu_(c!) @1
      save c @1
      d = aten::sum(c)
      aten::zero_(&d)
      save d)");
  return literal;
}

TEST(PrintTest, Text) {
  EXPECT_EQ(to_text(example().tape), R"(region 0
  %2 = aten::mul.Tensor(%0: float32[4], %1: float32[4])  32 B
  region 1
    %3 = aten::dropout(%2: float32[8], p=0.5)  32 B  draw 0
    %4 <- %3 = aten::relu_(%3: float32[8])
region 0
  %5 = aten::sum(%4: float32[8])  16 B
  %6 <- _ = aten::zero_(_: float32[4])
saved %4  32 B  region 1
saved %6  16 B  region 0
)");
}

TEST(PrintTest, Dot) {
  EXPECT_EQ(to_dot(example().tape), R"dot(digraph tape {
  node [shape=box, fontname="monospace"];
  subgraph cluster_0 { label="region 0"; n0 [label="aten::mul.Tensor"]; }
  subgraph cluster_1 { label="region 1"; n1 [label="aten::dropout"]; }
  subgraph cluster_1 { label="region 1"; n2 [label="aten::relu_"]; }
  subgraph cluster_0 { label="region 0"; n3 [label="aten::sum"]; }
  subgraph cluster_0 { label="region 0"; n4 [label="aten::zero_"]; }
  v0 [shape=ellipse, label="%0"];
  v0 -> n0 [label="%0"];
  v1 [shape=ellipse, label="%1"];
  v1 -> n0 [label="%1"];
  n0 -> n1 [label="%2"];
  n1 -> n2 [label="%3"];
  n2 -> n3 [label="%4"];
}
)dot");
}

TEST(PrintTest, NamesComeAfterWhatIsSaved) {
  TapeLiteral literal("b = f(a); save b");
  literal.tape.add_name(literal.value("b"), "hidden");
  const auto text = to_text(literal.tape);
  EXPECT_NE(text.find("saved %1  16 B  region 0\nnamed %1  hidden\n"), std::string::npos) << text;
}

TEST(PrintTest, Json) {
  EXPECT_EQ(to_json(TapeLiteral("b = aten::relu(a, \"p=1\"); save b").tape), R"({
 "format": "remat-tape-1",
 "names": [],
 "nodes": [
  {
   "arguments": "p=1",
   "op": "aten::relu",
   "random": false,
   "read_geometry": [
    {
     "conj": false,
     "dtype": "float32",
     "neg": false,
     "offset": 0,
     "sizes": [
      4
     ],
     "strides": [
      1
     ]
    }
   ],
   "reads": [
    0
   ],
   "region": 0,
   "result_geometry": [
    {
     "conj": false,
     "dtype": "float32",
     "neg": false,
     "offset": 0,
     "sizes": [
      4
     ],
     "strides": [
      1
     ]
    }
   ],
   "results": [
    1
   ],
   "writes": []
  }
 ],
 "regions": [
  null
 ],
 "saved": [
  {
   "bytes": 16,
   "region": 0,
   "value": 1
  }
 ],
 "values": [
  {
   "buffer": 0,
   "bytes": 16,
   "source": true,
   "version": 0
  },
  {
   "buffer": 1,
   "bytes": 16,
   "source": false,
   "version": 0
  }
 ]
})");
}

TEST(PrintTest, AnEmptyTapePrintsNothing) { EXPECT_EQ(to_text(Tape()), ""); }

TEST(PrintTest, JsonSaysNullForAnArgumentWithoutContent) {
  const auto json = to_json(TapeLiteral("b = f(_, a)").tape);
  EXPECT_NE(json.find("\"reads\": [\n    null,\n    0\n   ]"), std::string::npos) << json;
}

TEST(PrintTest, DotEscapesQuotes) {
  Tape tape;
  auto call = std::make_shared<Call>();
  call->op = R"(say "hi"\)";
  tape.add_node(std::move(call), kOutermost, kNone, {}, {});
  EXPECT_NE(to_dot(tape).find(R"([label="say \"hi\"\\"])"), std::string::npos);
}

}  // namespace
}  // namespace remat::tape
