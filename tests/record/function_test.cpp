// C++ autograd Functions: their operators are recorded like any other, and their forward runs once.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

int forwards = 0;

/// x * sin(x), saving an input, an intermediate result and the output.
struct SineProduct : torch::autograd::Function<SineProduct> {
  static Variable forward(AutogradContext* context, const Variable& x) {
    ++forwards;
    const auto sine = x.sin();
    auto product = x * sine;
    context->save_for_backward({x, sine, product});
    return product;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    return {gradients[0] * (saved[1] + saved[0] * saved[0].cos()) + saved[2] * 0};
  }
};

/// Doubles its argument in place.
struct Doubled : torch::autograd::Function<Doubled> {
  static Variable forward(AutogradContext* context, Variable x) {
    x.mul_(2);
    context->mark_dirty({x});
    return x;
  }
  static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
    return {gradients[0] * 2};
  }
};

TEST(FunctionTest, WhatItSavesIsRecomputed) {
  const auto stats = expect_replayed_as_plain(
      [](const Tensors& in) { return SineProduct::apply(in[0].exp()).sin(); }, {leaf()});
  EXPECT_EQ(stats.kept_by_reason.at("unknown"), 0);
}

TEST(FunctionTest, ItsForwardRunsOnce) {
  const auto x = leaf();
  const auto y = checkpoint([&] { return SineProduct::apply(x.exp()); });
  forwards = 0;
  y.sum().backward();
  EXPECT_EQ(forwards, 0);
}

TEST(FunctionTest, ItMayWriteItsArgument) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto z = in[0].exp() + 1;
        const auto before = (z + 1).exp();
        const auto doubled = Doubled::apply(z);
        return before * doubled.sin();
      },
      {leaf()});
}

TEST(FunctionTest, TwiceDifferentiated) {
  expect_same_as_plain(
      [](const Tensors& in) {
        const auto y = SineProduct::apply(in[0].exp());
        const auto gradient = torch::autograd::grad({y.sum()}, {in[0]}, {}, true, true)[0];
        return gradient.sin() * y;
      },
      {leaf()});
}

}  // namespace
}  // namespace remat::testing
