// Random operators draw the same numbers again, and nobody's stream is disturbed: every comparison
// includes the default generator's state.

#include "remat/record/randomness.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

at::Generator generator(uint64_t seed) { return at::make_generator<at::CPUGeneratorImpl>(seed); }

TEST(RandomnessTest, Dropout) {
  expect_replayed_as_plain(
      [](const Tensors& in) { return at::dropout(in[0].exp(), 0.5, true).sin(); }, {leaf()});
}

TEST(RandomnessTest, NativeDropout) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        return std::get<0>(at::native_dropout(in[0].exp(), 0.5, true)).sin();
      },
      {leaf()});
}

TEST(RandomnessTest, SeveralDrawsInARow) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto x = in[0];
        for (int i = 0; i < 4; ++i) x = at::dropout(x * at::rand_like(x), 0.3, true);
        return x.exp();
      },
      {leaf()});
}

TEST(RandomnessTest, InPlaceFills) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto noise = at::empty({4, 4});
        auto result = in[0] * noise.normal_();
        result = result * at::empty({4, 4}).bernoulli_(0.5);
        result = result * at::empty({4, 4}).uniform_();
        return result * at::empty({4, 4}).exponential_();
      },
      {leaf()});
}

TEST(RandomnessTest, BernoulliOfProbabilities) {
  expect_replayed_as_plain([](const Tensors& in) { return in[0] * in[0].sigmoid().bernoulli(); },
                           {leaf()});
}

TEST(RandomnessTest, ExplicitGenerator) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        const auto own = generator(3);
        const auto first = at::rand({4, 4}, own);
        return in[0] * first * at::empty({4, 4}).normal_(0, 1, own);
      },
      {leaf()});
}

TEST(RandomnessTest, AnExplicitGeneratorStandsWhereForwardLeftIt) {
  const auto own = generator(3);
  const auto x = leaf();
  const auto y = checkpoint([&] { return x * at::rand({4, 4}, own); });
  const auto after_forward = own.get_state();
  y.sum().backward();
  expect_same_bits(own.get_state(), after_forward, "the generator");
}

TEST(RandomnessTest, Permutation) {
  expect_replayed_as_plain(
      [](const Tensors& in) { return in[0].index_select(0, at::randperm(4)).sin(); }, {leaf()});
}

TEST(RandomnessTest, Multinomial) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        const auto picked = at::multinomial(in[0].detach().softmax(1), 2);
        return in[0].gather(1, picked).exp();
      },
      {leaf()});
}

TEST(RandomnessTest, RandomizedRelu) {
  expect_replayed_as_plain(
      [](const Tensors& in) { return at::rrelu(in[0] * 2, 0.1, 0.3, true).sin(); }, {leaf()});
}

TEST(RandomnessTest, RandomizedReluInPlace) {
  expect_same_as_plain(
      [](const Tensors& in) {
        auto z = in[0] * 2;
        return at::rrelu_(z, 0.1, 0.3, true).sin();
      },
      {leaf()});
}

TEST(RandomnessTest, DrawsOfOthersBetweenForwardAndBackwardStay) {
  expect_replayed_as_plain([](const Tensors& in) { return at::dropout(in[0].exp(), 0.5, true); },
                           {leaf()}, [](const Tensors&) { at::rand({100}); });
}

TEST(RandomnessTest, OperatorsThatDrawNothingInBetweenShareAState) {
  const auto generator = at::globalContext().defaultGenerator(c10::kCPU);
  record::DrawLog log;
  const auto first = log.observe(generator);
  const auto second = log.observe(generator);
  EXPECT_TRUE(second->state.is_same(first->state));
  at::rand({1});
  EXPECT_FALSE(*log.observe(generator) == *second);
}

TEST(RandomnessTest, SmallDrawsShareOneState) {
  const auto generator = at::globalContext().defaultGenerator(c10::kCPU);
  record::DrawLog log;
  const auto first = log.observe(generator);
  for (int i = 0; i < 40; ++i) {
    const auto draw = log.observe(generator);
    EXPECT_TRUE(draw->state.is_same(first->state));
    const auto drawn = at::randn({i % 2 == 0 ? 100 : 7});
    expect_same_bits(at::randn(drawn.sizes(), record::replica_of(*draw)), drawn, "the draw");
  }
}

TEST(RandomnessTest, AfterALargeDrawOrAnotherSeedTheStateIsAnother) {
  const auto generator = at::globalContext().defaultGenerator(c10::kCPU);
  record::DrawLog log;
  const auto first = log.observe(generator);
  at::rand({100'000});
  const auto behind = log.observe(generator);
  EXPECT_FALSE(behind->state.is_same(first->state));
  at::manual_seed(7);
  const auto seeded = log.observe(generator);
  EXPECT_FALSE(seeded->state.is_same(behind->state));
  const auto drawn = at::rand({3});
  expect_same_bits(at::rand({3}, record::replica_of(*seeded)), drawn, "the draw");
}

TEST(RandomnessTest, AReplicaLeavesTheOriginalAlone) {
  const auto original = generator(3);
  const auto draw = record::DrawLog().observe(original);
  const auto expected = at::rand({4}, original);
  const auto state = original.get_state();
  expect_same_bits(at::rand({4}, record::replica_of(*draw)), expected, "the draw");
  expect_same_bits(original.get_state(), state, "the original");
}

TEST(RandomnessTest, ADrawScopePutsTheGeneratorBack) {
  const auto draw = record::DrawLog().observe(at::globalContext().defaultGenerator(c10::kCPU));
  const auto expected = at::rand({4});
  const auto state = at::globalContext().defaultGenerator(c10::kCPU).get_state();
  {
    const record::DrawScope scope(*draw);
    expect_same_bits(at::rand({4}), expected, "the draw");
  }
  expect_same_bits(at::globalContext().defaultGenerator(c10::kCPU).get_state(), state,
                   "the generator");
}

}  // namespace
}  // namespace remat::testing
