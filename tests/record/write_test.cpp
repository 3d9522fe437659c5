// Recorded writes: in place, out=, set_, lists.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

TEST(InPlaceTest, MakesTheNextVersionOfTheBuffer) {
  const auto x = constant();
  Region region;
  auto z = x.exp();
  z.add_(1);
  z.sin_();
  const auto& tape = region.tape();
  ASSERT_EQ(ops_of(tape), "aten::exp aten::add_.Scalar aten::sin_");
  const auto& last = tape.value(tape.writes(2)[0]);
  EXPECT_EQ(last.buffer, tape.value(tape.results(0)[0]).buffer);
  EXPECT_EQ(last.version, 2);
}

TEST(InPlaceTest, IsReplayedOnItsOwnResult) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto z = in[0] * 2;
        z.add_(1);
        z.mul_(in[1]);
        return z.sin();
      },
      {leaf(), constant()});
}

TEST(InPlaceTest, ReadersOfTheOldVersionGetTheOldVersion) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto z = in[0] * 2;
        const auto before = (z + 1).exp();
        z.neg_();
        return before * (z + 1).exp();
      },
      {leaf()});
}

TEST(InPlaceTest, MaskedIndexedAndPartialWritesAreReplayed) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto z = in[0] * 2;
        z.masked_fill_(in[0] > 0, 0.25);
        z.index_put_({at::tensor({0, 2})}, in[1].narrow(0, 0, 2));
        z.narrow(1, 1, 2).copy_(in[1].narrow(1, 0, 2));
        z.select(0, 3).zero_();
        return z.exp();
      },
      {leaf(), leaf({4, 4}, 2)});
}

TEST(InPlaceTest, AnOverwriteNeedsNothingOfWhatWasThere) {
  const auto x = constant();
  Region region;
  auto z = x.exp();
  z.copy_(x);
  EXPECT_EQ(region.tape().reads(1)[0], tape::kNone);
}

TEST(InPlaceTest, AnOverwriteOfAPartReadsTheRest) {
  const auto x = constant();
  Region region;
  auto z = x.exp();
  z.select(0, 0).zero_();
  EXPECT_EQ(region.tape().reads(1)[0], region.tape().results(0)[0]);
}

TEST(InPlaceTest, AListOfTensorsIsWrittenOneByOne) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        const std::vector<at::Tensor> pair = {in[0] * 2, in[1] * 3};
        at::_foreach_mul_(pair, 2);
        at::_foreach_add_(pair, pair);
        return pair[0].exp() * pair[1].sin();
      },
      {leaf(), leaf({4, 4}, 2)});
}

TEST(OutTest, IsAnOverwriteAndReplayed) {
  const auto stats = expect_replayed_as_plain(
      [](const Tensors& in) {
        auto out = at::empty({4, 4});
        at::sin_out(out, in[1]);
        return in[0] * out;
      },
      {leaf(), constant()});
  EXPECT_EQ(stats.kept_by_reason.at("unknown"), 0);
}

TEST(OutTest, MayResizeItsArgument) {
  expect_same_as_plain(
      [](const Tensors& in) {
        auto out = at::empty({0});
        at::sin_out(out, in[1]);
        const auto product = (in[0] + out).exp();
        out.resize_({0});
        at::cos_out(out, in[1].narrow(0, 0, 2));
        return product.narrow(0, 0, 2) * (in[0].narrow(0, 0, 2) + out).exp();
      },
      {leaf(), constant()});
}

TEST(OutTest, AResizedResultIsReplayed) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto out = at::empty({0});
        at::sin_out(out, in[1]);
        return (in[0] + out).exp();
      },
      {leaf(), constant()});
}

TEST(OutTest, APartOfABufferIsWrittenAndTheRestStays) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto z = in[1].exp();
        auto row = z.select(0, 1);
        at::sin_out(row, in[1].select(0, 0));
        return in[0] * z;
      },
      {leaf(), constant()});
}

TEST(OutTest, MayBeItsOwnArgument) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto z = in[1].exp();
        at::sin_out(z, z);
        return (in[0] + z).exp();
      },
      {leaf(), constant()});
}

TEST(OutTest, MayBeASourceThatIsItsOwnArgument) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto z = in[1];
        at::sin_out(z, z);
        return (in[0] + z).exp();
      },
      {leaf(), constant()}, [](const Tensors& in) { in[1].zero_(); });
}

TEST(OutTest, MayBeASourceTooLargeToCopyThatIsItsOwnArgument) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto z = in[1];
        at::sin_out(z, z);
        return (in[0] + z).exp();
      },
      {leaf({20'000}), constant({20'000})}, [](const Tensors& in) { in[1].zero_(); });
}

/// A product writes over what it has yet to read. Meaningless, legal, and repeatable.
TEST(OutTest, MayBeAnArgumentThatIsReadAfterItIsWritten) {
  expect_same_as_plain(
      [](const Tensors& in) {
        auto made = in[1].exp();
        at::addmm_out(made, made, in[1], made);
        at::addmm_out(const_cast<at::Tensor&>(in[2]), in[2], in[1], in[2]);
        return (in[0] + made).exp() * (in[0] * in[2]).sin();
      },
      {leaf(), constant(), constant({4, 4}, 2)});
}

TEST(SetTest, MovesATensorToAnotherBuffer) {
  expect_same_as_plain(
      [](const Tensors& in) {
        auto z = at::empty({0});
        const auto product = in[1] * 2;
        z.set_(product);
        return (in[0] * z) + (in[0] * product).exp();
      },
      {leaf(), constant()});
}

TEST(SetTest, ResizedInTheRegionIsKept) {
  expect_same_as_plain(
      [](const Tensors& in) {
        auto z = in[1] * 2;
        const auto before = (in[0] + z.narrow(0, 0, 2)).exp();
        z.resize_({6, 4});
        z.fill_(3);
        return before * (in[0] + z.narrow(0, 4, 2)).exp();
      },
      {leaf({2, 4}), constant()});
}

}  // namespace
}  // namespace remat::testing
