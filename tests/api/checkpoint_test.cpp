// remat::checkpoint takes any callable, any arguments, and gives back any result.

#include <memory>
#include <string>
#include <tuple>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "remat/record/recorder.h"
#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

at::Tensor scaled_exp(const at::Tensor& x, double factor) { return (x * factor).exp(); }

struct Module {
  at::Tensor weight = leaf({4, 4}, 2);
  at::Tensor forward(const at::Tensor& x) const { return (x * weight).exp(); }
};

TEST(CheckpointTest, AFunctionWithArguments) {
  expect_replayed_as_plain(
      [](const Tensors& in) { return checkpoint(scaled_exp, in[0], 2.0).sin(); }, {leaf()});
}

TEST(CheckpointTest, AMethodOfAnObject) {
  const Module module;
  const auto x = leaf();
  checkpoint(&Module::forward, module, x).sum().backward();
  expect_same_bits(module.weight.grad(), (x * module.weight).exp().mul(x).detach(), "the gradient");
}

TEST(CheckpointTest, NoResult) {
  const auto x = leaf();
  at::Tensor y;
  checkpoint([&] { y = x.exp(); });
  static_assert(std::is_void_v<decltype(checkpoint([&] { y = x.exp(); }))>);
  y.sum().backward();
  EXPECT_TRUE(x.grad().defined());
}

TEST(CheckpointTest, AReferenceStaysAReference) {
  at::Tensor slot = constant();
  at::Tensor& result = checkpoint([&]() -> at::Tensor& { return slot; });
  EXPECT_EQ(&result, &slot);
  const at::Tensor& argument =
      checkpoint([](const at::Tensor& x) -> const at::Tensor& { return x; }, slot);
  EXPECT_EQ(&argument, &slot);
}

TEST(CheckpointTest, AResultThatCanOnlyBeMoved) {
  const auto number = checkpoint([] { return std::make_unique<int>(42); });
  EXPECT_EQ(*number, 42);
}

TEST(CheckpointTest, AnArgumentThatCanOnlyBeMoved) {
  const auto increment = [](std::unique_ptr<int> number) { return *number + 1; };
  EXPECT_EQ(checkpoint(increment, std::make_unique<int>(41)), 42);
}

TEST(CheckpointTest, ATuple) {
  const auto x = leaf();
  const auto [y, name] = checkpoint([&] { return std::make_tuple(x.exp(), std::string("exp")); });
  EXPECT_EQ(name, "exp");
  y.sum().backward();
  expect_same_bits(x.grad(), y.detach(), "the gradient");
}

TEST(CheckpointTest, ACallableThatCanOnlyBeMoved) {
  const auto x = leaf();
  auto factor = std::make_unique<double>(2.0);
  const auto y = checkpoint([&x, factor = std::move(factor)] { return (x * *factor).exp(); });
  y.sum().backward();
  expect_same_bits(x.grad(), (y * 2).detach(), "the gradient");
}

TEST(CheckpointTest, TheFunctionRunsOnce) {
  int runs = 0;
  const auto x = leaf();
  const auto loss = checkpoint([&] {
    ++runs;
    return x.exp().sin().sum();
  });
  loss.backward();
  EXPECT_EQ(runs, 1);
}

TEST(CheckpointTest, AnExceptionPassesAndLeavesNothingOpen) {
  const auto x = leaf();
  EXPECT_THROW(checkpoint([&]() -> at::Tensor {
                 const auto y = x.exp();
                 throw std::runtime_error("stop");
               }),
               std::runtime_error);
  EXPECT_EQ(record::Recorder::current(), nullptr);
  expect_replayed_as_plain([](const Tensors& in) { return (in[0] * 2).exp().sin(); }, {leaf()});
}

TEST(CheckpointTest, AnExceptionInANestedOneLeavesTheOuterOneOpen) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto y = in[0].exp();
        try {
          checkpoint([&]() -> at::Tensor {
            const auto z = y.exp();
            throw std::runtime_error("stop");
          });
        } catch (const std::runtime_error&) {
          return checkpoint([&] { return y.sin().exp(); });
        }
        return y;
      },
      {leaf()});
}

TEST(CheckpointTest, WithoutGradientsItIsACall) {
  const c10::AutoGradMode no_grad(false);
  reset_stats();
  expect_same_bits(checkpoint(scaled_exp, constant(), 2.0), scaled_exp(constant(), 2.0),
                   "the result");
  EXPECT_EQ(stats().ops_recorded, 0);
}

}  // namespace
}  // namespace remat::testing
