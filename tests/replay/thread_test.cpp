// Regions, graphs and tapes on several threads.

#include <atomic>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

at::Tensor block(const at::Tensor& x) {
  auto z = (x * 0.5).sin();
  z.add_(1);
  return at::dropout(z.exp(), 0.5, false).sin().tanh();
}

at::Tensor plain_gradient(const at::Tensor& at) {
  const auto x = at.detach().clone().requires_grad_();
  block(x).sum().backward();
  return x.grad();
}

TEST(ThreadTest, BackwardOnAnotherThread) {
  const auto x = leaf();
  const auto loss = checkpoint([&] { return block(x).sum(); });
  std::thread([&] { loss.backward(); }).join();
  expect_same_bits(x.grad(), plain_gradient(x), "the gradient");
}

TEST(ThreadTest, ATapeThatDiesOnAnotherThread) {
  const auto x = leaf();
  auto loss = checkpoint([&] { return block(x).sum(); });
  std::thread([moved = std::move(loss)]() mutable { moved.reset(); }).join();
  EXPECT_FALSE(loss.defined());
}

TEST(ThreadTest, ManyThreadsWithRegionsOfTheirOwn) {
  constexpr int kThreads = 8;
  Tensors leaves;
  for (int i = 0; i < kThreads; ++i) leaves.push_back(leaf({4, 4}, 100 + i));
  std::vector<std::thread> threads;
  for (const at::Tensor& x : leaves) {
    threads.emplace_back([x] {
      for (int step = 0; step < 20; ++step) {
        x.mutable_grad().reset();
        checkpoint([&] { return block(x).sum(); }).backward();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const at::Tensor& x : leaves) expect_same_bits(x.grad(), plain_gradient(x), "the gradient");
}

TEST(ThreadTest, TwoThreadsThatAskOneTape) {
  for (int round = 0; round < 20; ++round) {
    const auto x = leaf();
    const auto y = leaf({4, 4}, 2);
    Tensors losses;
    checkpoint([&] {
      const auto shared = (x * y).exp();
      losses = {(block(shared) * x).sum(), (block(shared * 2) * y).sum()};
    });
    std::vector<at::Tensor> gradients(2);
    std::vector<std::thread> threads;
    threads.emplace_back([&] { losses[0].backward({}, true); });
    threads.emplace_back([&] { losses[1].backward({}, true); });
    for (auto& thread : threads) thread.join();

    const auto plain_x = leaf();
    const auto plain_y = leaf({4, 4}, 2);
    const auto shared = (plain_x * plain_y).exp();
    (block(shared) * plain_x).sum().backward({}, true);
    (block(shared * 2) * plain_y).sum().backward();
    EXPECT_TRUE(
        at::allclose(x.grad(), plain_x.grad(), 1e-6, 1e-6));  // the order of the two sums is open
    EXPECT_TRUE(at::allclose(y.grad(), plain_y.grad(), 1e-6, 1e-6));
  }
}

TEST(ThreadTest, OneGraphThatDiesWhileAnotherThreadAsksItsTape) {
  for (int round = 0; round < 50; ++round) {
    const auto x = leaf();
    Tensors losses;
    checkpoint([&] { losses = {block(x).sum(), block(x * 2).sum()}; });
    std::thread killer([dies = std::move(losses[1])]() mutable { dies.reset(); });
    losses[0].backward();
    killer.join();
    expect_same_bits(x.grad(), plain_gradient(x), "the gradient");
  }
}

/// Whether gradients of a product with noise are right where others draw at the same time. Where
/// another thread drew between the look at the generator and the draw, the noise cannot be
/// repeated, and an error says so.
bool noise_is_replayed() {
  const auto x = leaf();
  at::Tensor copy;
  const auto y = checkpoint([&] {
    const auto noise = at::rand_like(x);
    copy = noise.clone();  // alive, but not what backward reads
    return (x * noise.sin()).exp();
  });
  try {
    y.sum().backward();
  } catch (const c10::Error&) {
    return true;
  }
  return at::equal(x.grad(), y.detach() * copy.sin());
}

TEST(ThreadTest, RandomOperatorsOfSeveralThreadsDoNotDisturbReplays) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int step = 0; step < 50; ++step) wrong += noise_is_replayed() ? 0 : 1;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace remat::testing
