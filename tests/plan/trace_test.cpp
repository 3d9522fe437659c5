#include "remat/plan/trace.h"

#include <sstream>
#include <stdexcept>

#include <gtest/gtest.h>

#include "remat/plan/trace_file.h"
#include "tests/plan/build_trace.h"

namespace remat::plan {
namespace {

using testing::BuildTrace;

template <typename Make>
std::string error_of(const Make& make) {
  try {
    make();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST(TraceTest, KnowsWhoReadsAndWantsAValue) {
  BuildTrace build;
  const auto a = build.op(1, 8);
  build.op(1, 8, {a});
  build.op(1, 8, {a});
  build.step(2, {a});
  build.step(1, {a});
  const Trace trace = build.trace();
  EXPECT_EQ(std::vector<OpId>(trace.readers(a).begin(), trace.readers(a).end()),
            (std::vector<OpId>{1, 2}));
  EXPECT_EQ(std::vector<StepId>(trace.wanted_by(a).begin(), trace.wanted_by(a).end()),
            (std::vector<StepId>{0, 1}));
  EXPECT_EQ(trace.last_forward(a), 2);
}

TEST(TraceTest, OperatorsThatNoSavedValueDependsOnAreNotRelevant) {
  BuildTrace build;
  const auto a = build.op(1, 8);
  const auto b = build.op(1, 8, {a});
  build.op(1, 8, {a});
  build.step(1, {b});
  const Trace trace = build.trace();
  EXPECT_TRUE(trace.relevant(0));
  EXPECT_TRUE(trace.relevant(1));
  EXPECT_FALSE(trace.relevant(2));
}

TEST(TraceTest, AnInputNamedTwiceIsReadOnce) {
  BuildTrace build;
  const auto a = build.op(1, 8);
  build.op(1, 8, {a, a});
  EXPECT_EQ(build.trace().reads(1).size(), 1U);
}

TEST(TraceTest, SaysWhichOperatorContradictsItself) {
  BuildTrace build;
  const auto a = build.op(1, 8);
  build.document().ops.push_back({.name = "twice", .us = 1, .makes = {a}});
  EXPECT_EQ(error_of([&] { return build.trace(); }),
            "trace: operator 1 (twice) makes value 0, which was made before");
  build.document().ops.back() = {.name = "far", .us = 1, .reads = {7}};
  EXPECT_EQ(error_of([&] { return build.trace(); }),
            "trace: operator 1 (far) names value 7, but there are 1 values");
  build.document().ops.back() = {.name = "back", .us = -1};
  EXPECT_EQ(error_of([&] { return build.trace(); }),
            "trace: operator 1 (back) has a negative time");
}

TEST(TraceTest, RefusesAValueThatIsReadBeforeItIsMade) {
  BuildTrace build;
  const auto later = build.value(8);
  build.op(1, 8, {later});
  build.document().ops.push_back({.name = "late", .us = 1, .makes = {later}});
  EXPECT_EQ(error_of([&] { return build.trace(); }),
            "trace: operator 1 (late) makes value 0, which was read before");
}

TEST(TraceTest, AnOperatorsHashTellsWiringAndNotSizes) {
  const auto hash_of = [](int64_t bytes, bool crossed) {
    BuildTrace build;
    const auto made = build.ops(1, {bytes, bytes});
    build.op(1, bytes, {made[crossed ? 1 : 0]});
    return build.trace().hash(1);
  };
  EXPECT_EQ(hash_of(8, false), hash_of(16, false));
  EXPECT_NE(hash_of(8, false), hash_of(8, true));
}

TEST(TraceFileTest, WritesWhatItReads) {
  BuildTrace build;
  const auto a = build.op(1.5, 8);
  build.step(0, {a}, 100);
  build.document().ops[0].hash = 7;
  std::stringstream file;
  write_trace(build.trace(), file);
  const Trace again = read_trace(file);
  EXPECT_EQ(again.us(0), 1.5);
  EXPECT_EQ(again.bytes(a), 8);
  EXPECT_EQ(again.extra(0), 100);
  EXPECT_EQ(again.hash(0), 7U);
  EXPECT_EQ(again.base_us(), 4.5);
}

TEST(TraceFileTest, NamesTheFieldThatIsWrong) {
  const auto read = [](const char* text) {
    return error_of([&] {
      std::istringstream file(text);
      read_trace(file);
    });
  };
  EXPECT_NE(read("{").find("no JSON"), std::string::npos);
  EXPECT_NE(read("{}").find("remat-trace-1"), std::string::npos);
  EXPECT_NE(read(R"({"format": "remat-trace-1", "base_us": 1, "ops": [{"name": "f"}],
                     "values": [], "steps": []})")
                .find("\"us\" of operator 0"),
            std::string::npos);
}

TEST(TraceFileTest, NamesTheFileThatIsMissing) {
  EXPECT_EQ(error_of([] { read_trace(std::filesystem::path("none.json")); }),
            "none.json: cannot be read");
}

}  // namespace
}  // namespace remat::plan
