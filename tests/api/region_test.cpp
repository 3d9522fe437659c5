#include "remat/region.h"

#include <memory>
#include <thread>
#include <unistd.h>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "remat/record/recorder.h"
#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

/// What the error says that `call` throws.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST(RegionTest, RecordsFromOpeningToClosing) {
  const auto x = leaf();
  Region region;
  EXPECT_TRUE(region.is_recording());
  const auto y = x.exp();
  EXPECT_EQ(region.tape().nodes(), 1);
  region.close();
  EXPECT_FALSE(region.is_recording());
  EXPECT_EQ(ops_of(region.tape()), "aten::exp");
}

TEST(RegionTest, ClosesOnce) {
  Region region;
  region.close();
  region.close();
  EXPECT_EQ(record::Recorder::current(), nullptr);
}

TEST(RegionTest, ClosesAtTheEndOfItsScope) {
  { const Region region; }
  EXPECT_EQ(record::Recorder::current(), nullptr);
}

TEST(RegionTest, AnInnerOneIsARegionOfTheSameTape) {
  const auto x = leaf();
  Region outer;
  const auto y = x.exp();
  Region inner;
  const auto z = y.tanh();
  EXPECT_EQ(&inner.tape(), &outer.tape());
  EXPECT_EQ(outer.tape().node(0).region, tape::kOutermost);
  EXPECT_EQ(outer.tape().node(1).region, 1);
  inner.close();
  EXPECT_TRUE(outer.is_recording());
  const auto w = z.sin();
  EXPECT_EQ(outer.tape().node(2).region, tape::kOutermost);
}

TEST(RegionTest, AnExceptionLeavesNothingOpen) {
  const auto x = leaf();
  try {
    const Region outer;
    const Region inner;
    x.mm(at::ones({3, 3}));
  } catch (const c10::Error&) {
    EXPECT_EQ(record::Recorder::current(), nullptr);
  }
  EXPECT_EQ(recorded([&] { x.exp(); }), "aten::exp");
}

TEST(RegionTest, ClosedOutOfOrderIsAnErrorAndClosesBoth) {
  Region outer;
  Region inner;
  const auto error = error_of([&] { outer.close(); });
  EXPECT_NE(error.find("regions must be closed in the reverse order of opening"), std::string::npos)
      << error;
  EXPECT_EQ(record::Recorder::current(), nullptr);
  EXPECT_EQ(error_of([&] { inner.close(); }), "no error");
}

TEST(RegionTest, GradientsAreRightAfterClosingOutOfOrder) {
  const auto x = leaf();
  at::Tensor loss;
  Region outer;
  {
    auto y = x.exp();
    Region inner;
    loss = y.sin().exp().sum();
    EXPECT_THROW(outer.close(), c10::Error);
  }
  loss.backward();
  const auto plain = leaf();
  plain.exp().sin().exp().sum().backward();
  expect_same_bits(x.grad(), plain.grad(), "the gradient");
}

/// Runs `body` where a region that stays open by mistake disturbs no other test.
template <typename Body>
void on_a_thread_of_its_own(const Body& body) {
  std::thread(body).join();
}

TEST(RegionTest, ClosedOnAnotherThreadIsAnErrorAndStaysOpen) {
  on_a_thread_of_its_own([] {
    Region region;
    std::string error;
    on_a_thread_of_its_own([&] { error = error_of([&] { region.close(); }); });
    EXPECT_NE(error.find("must be closed on the thread that opened it"), std::string::npos)
        << error;
    EXPECT_TRUE(region.is_recording());
    region.close();
    EXPECT_EQ(record::Recorder::current(), nullptr);
  });
}

TEST(RegionTest, DestroyedOnAnotherThreadItNoLongerRecordsOnItsOwn) {
  on_a_thread_of_its_own([] {
    auto region = std::make_unique<Region>();
    on_a_thread_of_its_own([&] { region.reset(); });
    expect_same_as_plain([](const Tensors& in) { return (in[0] * 2).exp().sin(); }, {leaf()});
    EXPECT_EQ(record::Recorder::current(), nullptr);
  });
}

TEST(RegionDeathTest, AForkedChildRecordsNothing) {
  const auto x = leaf();
  const Region region;
  EXPECT_EXIT(
      {
        x.exp();
        const bool quiet = record::Recorder::current() == nullptr && region.tape().nodes() == 0;
        _exit(quiet ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
  x.exp();
  EXPECT_EQ(region.tape().nodes(), 1);
}

TEST(RegionDeathTest, AForkedChildOpensRegionsOfItsOwn) {
  const Region region;
  EXPECT_EXIT(
      {
        const auto x = leaf();
        checkpoint([&] { return (x * 2).exp().sum(); });
        _exit(recorded([&] { x.exp(); }) == "aten::exp" ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(RegionTest, HeldBytesAreThoseOfSources) {
  const auto x = leaf({20'000});
  const auto y = constant({20'000});
  Region region;
  const auto z = (x + y).exp();
  region.close();
  EXPECT_EQ(region.held_bytes(), 80'000);  // a parameter is held by the model
}

TEST(RegionTest, HeldBytesAreThoseOfWhatAPolicyKeepsInsteadOfWhatItWasMadeFrom) {
  const auto x = leaf({20'000});
  const auto y = constant({20'000});
  Region region({.policy = policy::keep_ops({"tanh"})});
  const auto z = (x + y).tanh().narrow(0, 0, 4).exp();
  EXPECT_EQ(region.held_bytes(), 2 * 80'000);
  region.close();
  EXPECT_EQ(region.held_bytes(), 80'000);
}

TEST(RegionTest, ATapeIsPrintedInEveryForm) {
  const auto x = leaf();
  Region region;
  const auto y = x.exp();
  region.close();
  EXPECT_EQ(tape::to_text(region.tape()),
            "region 0\n  %1 = aten::exp(%0: float32[4, 4])  64 B\nsaved %1  64 B  region 0\n");
  EXPECT_NE(tape::to_dot(region.tape()).find("n0 [label=\"aten::exp\"]"), std::string::npos);
  EXPECT_NE(tape::to_json(region.tape()).find("\"format\": \"remat-tape-1\""), std::string::npos);
}

}  // namespace
}  // namespace remat::testing
