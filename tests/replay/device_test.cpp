// Another device than the CPU, through c10's generic interfaces.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"
#include "tests/support/fake_device.h"

namespace remat::testing {
namespace {

using Function = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

/// Gradients of both inputs, computed on the fake device.
Tensors gradients(const Function& function, bool in_region) {
  const auto x = constant().to(fake_device()).requires_grad_();
  const auto weight = constant({4, 4}, 2).to(fake_device()).requires_grad_();
  const auto run = [&] { return function(x, weight); };
  auto y = in_region ? checkpoint(run) : run();
  const auto sum = y.sum();
  y.reset();
  sum.backward();
  return {x.grad().cpu(), weight.grad().cpu()};
}

void expect_replayed(const Function& function) {
  const auto expected = gradients(function, false);
  reset_stats();
  const auto actual = gradients(function, true);
  for (size_t i = 0; i < expected.size(); ++i)
    expect_same_bits(actual[i], expected[i], "a gradient");
  EXPECT_GT(stats().ops_replayed, 0);
}

TEST(DeviceTest, AChainOfOperators) {
  expect_replayed([](const at::Tensor& x, const at::Tensor& weight) {
    return x.mm(weight).tanh().exp().sin();
  });
}

TEST(DeviceTest, WritesInPlaceAndThroughViews) {
  expect_replayed([](const at::Tensor& x, const at::Tensor& weight) {
    auto z = x * weight + 1;
    z.narrow(0, 1, 2).mul_(2);
    return z.t().exp().sin();
  });
}

TEST(DeviceTest, ASourceThatIsOverwrittenInside) {
  expect_replayed([](const at::Tensor& x, const at::Tensor& weight) {
    auto outside = at::ones({4, 4}, x.options());
    const auto y = checkpoint([&] {
      const auto z = (x + outside).exp();
      outside.mul_(3);
      return (z + outside).sin();
    });
    return y * weight;
  });
}

TEST(DeviceTest, WhatIsDrawnWithoutAReadableGeneratorIsKept) {
  const auto x = constant().to(fake_device()).requires_grad_();
  at::Tensor noise;
  const auto y = checkpoint([&] {
    noise = at::empty_like(x).bernoulli_(0.5);
    return (x * noise).exp().sin();
  });
  y.sum().backward();
  const auto plain = x.detach().requires_grad_();
  (plain * noise).exp().sin().sum().backward();
  expect_same_bits(x.grad().cpu(), plain.grad().cpu(), "the gradient");
}

TEST(DeviceTest, VerifyModeReadsItsTensors) {
  const auto x = constant().to(fake_device()).requires_grad_();
  Region region({.verify = true});
  const auto sum = ((x * 2).exp().sin() * 1).sum();
  region.close();
  sum.backward();
  EXPECT_TRUE(x.grad().defined());
}

}  // namespace
}  // namespace remat::testing
