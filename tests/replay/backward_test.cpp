// How often backward runs what.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "remat/remat.h"
#include "tests/support/compare.h"
#include "tests/support/operator_log.h"

namespace remat::testing {
namespace {

/// exp, `n` times: each saves its result, and its backward calls no exp.
at::Tensor chain(at::Tensor x, int n) {
  for (int i = 0; i < n; ++i) x = (x * 0.25).exp();
  return x;
}

at::Tensor loss_of_chain(const at::Tensor& x, int n) {
  return checkpoint([&] { return chain(x, n).sum(); });
}

TEST(ReplayTest, EachOperatorRunsAtMostOnce) {
  const auto loss = loss_of_chain(leaf(), 8);
  const OperatorLog log;
  loss.backward();
  EXPECT_EQ(log.count("aten::exp"), 8);
}

TEST(ReplayTest, OnlyWhatIsSavedOrLeadsThereRuns) {
  const auto x = leaf();
  const auto loss = checkpoint([&] {
    const auto y = x.exp();
    return y.sin().sum() +
           y.cos().detach().sum();  // nobody saves the result of sin, nor anything of cos
  });
  const OperatorLog log;
  loss.backward();
  EXPECT_EQ(log.count("aten::exp"), 1);
  EXPECT_EQ(log.count("aten::sin"), 0);
  EXPECT_EQ(log.count("aten::cos"), 1);  // backward of sin
}

TEST(ReplayTest, OnlyTheSliceOfTheOutputThatIsAskedFor) {
  const auto x = leaf();
  at::Tensor first;
  at::Tensor second;
  checkpoint([&] {
    first = chain(x, 3).sum();
    second = chain(x.tanh(), 5).sum();
  });
  const OperatorLog log;
  first.backward();
  EXPECT_EQ(log.count("aten::exp"), 3);
  EXPECT_EQ(log.count("aten::tanh"), 0);
  second.backward();
  EXPECT_EQ(log.count("aten::exp"), 3 + 5);
  EXPECT_EQ(log.count("aten::tanh"), 1);
}

TEST(ReplayTest, ARetainedGraphReplaysAgain) {
  const auto x = leaf();
  const auto plain = leaf();
  const auto loss = loss_of_chain(x, 4);
  const auto plain_loss = chain(plain, 4).sum();
  const OperatorLog log;
  for (int i = 0; i < 2; ++i) {
    loss.backward({}, true);
    plain_loss.backward({}, true);
    EXPECT_EQ(log.count("aten::exp"), 4 * (i + 1));
  }
  expect_same_bits(x.grad(), plain.grad(), "the gradient");
}

TEST(ReplayTest, ASecondBackwardWithoutARetainedGraphRaisesLikePlain) {
  const auto loss = loss_of_chain(leaf(), 2);
  loss.backward();
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(ReplayTest, DoubleBackward) {
  const auto second_gradient = [](const at::Tensor& x, const at::Tensor& loss) {
    const auto gradient = torch::autograd::grad({loss}, {x}, {}, true, true)[0];
    gradient.sin().sum().backward();
    return x.grad();
  };
  const auto x = leaf();
  const auto plain = leaf();
  expect_same_bits(second_gradient(x, loss_of_chain(x, 4)),
                   second_gradient(plain, chain(plain, 4).sum()), "the second gradient");
}

TEST(ReplayTest, GradientsTakenInsideTheRegion) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        const auto y = chain(in[0], 3);
        const auto gradient = torch::autograd::grad({y.sum()}, {in[0]}, {}, true, true)[0];
        return (gradient * y).tanh();
      },
      {leaf()});
}

TEST(ReplayTest, BackwardInsideTheRegionIsNotRecorded) {
  const auto x = leaf();
  Region region;
  chain(x, 2).sum().backward();
  const auto recorded = ops_of(region.tape());
  region.close();
  // The gradient of the loss is made before backward begins.
  EXPECT_EQ(recorded,
            "aten::mul.Scalar aten::exp aten::mul.Scalar aten::exp aten::sum aten::ones_like");
}

TEST(ReplayTest, InputsOnlyOfGrad) {
  const auto x = leaf();
  const auto w = leaf({4, 4}, 2);
  const auto loss = checkpoint([&] { return (chain(x, 2) * chain(w, 3)).sum(); });
  const auto gradient = torch::autograd::grad({loss}, {w})[0];
  expect_same_bits(gradient, torch::autograd::grad({(chain(x, 2) * chain(w, 3)).sum()}, {w})[0],
                   "the gradient");
}

TEST(ReplayTest, ALaterRegionAsksAnEarlierOneThroughItsInput) {
  const auto x = leaf();
  const auto middle = checkpoint([&] { return chain(x, 3); });
  const auto loss = checkpoint([&] { return chain(middle, 3).sum(); });
  const OperatorLog log;
  loss.backward();
  EXPECT_EQ(log.count("aten::exp"), 3 + 2);  // `middle` itself is alive
  const auto plain = leaf();
  chain(plain, 6).sum().backward();
  expect_same_bits(x.grad(), plain.grad(), "the gradient");
}

/// Its backward trains another graph, in a region of its own.
struct Reentrant : torch::autograd::Function<Reentrant> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    const c10::AutoGradMode no_grad(false);
    return chain(x, 2);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const c10::AutoGradMode grad(true);
    const auto x = context->get_saved_variables()[0].detach().requires_grad_();
    const auto y = checkpoint([&] { return chain(x, 2); });
    return {torch::autograd::grad({y}, {x}, {gradients[0]})[0]};
  }
};

TEST(ReplayTest, BackwardWithinBackward) {
  expect_replayed_as_plain(
      [](const Tensors& in) { return chain(Reentrant::apply(chain(in[0], 2)), 2); }, {leaf()});
}

TEST(ReplayTest, WhatAHookMakesOfAGradientCounts) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        const auto y = (in[0] * 2).exp();
        y.register_hook([](const at::Tensor& gradient) { return gradient * 3; });
        return chain(y, 2);
      },
      {leaf()});
}

}  // namespace
}  // namespace remat::testing
