#include "remat/session.h"

#include <functional>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "remat/memory/memory.h"
#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

constexpr int64_t kKiB = 1024;

/// A chain of layers that save three tensors of 256 KiB each, with dropout.
struct Net {
  Tensors weights;
  explicit Net(size_t layers) {
    for (size_t i = 0; i < layers; ++i) weights.push_back(leaf({256, 256}, i));
  }

  at::Tensor operator()(at::Tensor x) const {
    for (const at::Tensor& w : weights) x = at::dropout(at::gelu(x.mm(w)), 0.1, true) + x;
    return x.square().mean();
  }
};

class SessionTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { memory::install(); }

  /// Loss and gradients of the step with the number as the seed.
  static Tensors train(const Net& net, const at::Tensor& x, uint64_t step,
                       Session* session = nullptr) {
    at::manual_seed(step);
    std::optional<Session::Step> scope;
    if (session != nullptr) scope.emplace(session->step());
    auto loss = net(x);
    loss.backward();
    if (scope) scope->end();
    Tensors results = {loss.detach().clone()};
    for (const at::Tensor& w : net.weights) {
      results.push_back(w.grad().clone());
      w.mutable_grad().reset();
    }
    return results;
  }

  static void expect_same(const Tensors& actual, const Tensors& expected) {
    for (size_t i = 0; i < expected.size(); ++i)
      expect_same_bits(actual[i], expected[i], "result " + std::to_string(i));
  }

  static int64_t plain_peak(const Net& net, const at::Tensor& x) {
    const auto before = static_cast<int64_t>(memory::live_bytes());
    memory::reset_peak();
    train(net, x, 1);
    return static_cast<int64_t>(memory::peak_bytes()) - before;
  }

  const at::Tensor x_ = constant({256, 256}, 99);
};

TEST_F(SessionTest, TrainsAsPlainFromTheFirstStepOn) {
  const Net net(8);
  Session session({.activation_bytes = plain_peak(net, x_) * 6 / 10});
  for (uint64_t step = 0; step < 4; ++step)
    expect_same(train(net, x_, step, &session), train(net, x_, step));
  EXPECT_EQ(session.report().plans, 1);
  EXPECT_EQ(session.report().followed, 3);
}

TEST_F(SessionTest, StaysWithinTheBudget) {
  const Net net(16);
  const int64_t plain = plain_peak(net, x_);
  for (const int64_t percent : {50, 60, 75, 90}) {
    Session session({.activation_bytes = plain * percent / 100});
    for (uint64_t step = 0; step < 3; ++step) {
      train(net, x_, step, &session);
      EXPECT_LE(session.report().measured_peak, plain * percent / 100) << percent << " " << step;
    }
    EXPECT_EQ(session.report().followed, 2) << percent;
  }
}

TEST_F(SessionTest, ThePlanForesaysThePeak) {
  const Net net(16);
  Session session({.activation_bytes = plain_peak(net, x_) * 6 / 10});
  for (uint64_t step = 0; step < 3; ++step) train(net, x_, step, &session);
  const auto& report = session.report();
  EXPECT_NEAR(static_cast<double>(report.measured_peak), static_cast<double>(report.planned_peak),
              0.01 * static_cast<double>(report.planned_peak));
}

TEST_F(SessionTest, RecomputesNothingWhereEverythingFits) {
  const Net net(4);
  Session session({.activation_bytes = plain_peak(net, x_) * 12 / 10});
  train(net, x_, 0, &session);
  reset_stats();
  train(net, x_, 1, &session);
  EXPECT_EQ(stats().ops_replayed, 0);
}

TEST_F(SessionTest, ABudgetThatNothingFitsNamesTheLeast) {
  const Net net(8);
  Session session({.activation_bytes = 300 * kKiB});
  std::string error;
  int64_t least = 0;
  try {
    train(net, x_, 0, &session);
  } catch (const DoesNotFit& misfit) {
    error = misfit.what();
    least = misfit.least_bytes();
  }
  EXPECT_GT(least, 300 * kKiB);
  EXPECT_NE(error.find("The least that fits is"), std::string::npos) << error;
  EXPECT_NE(error.find("aten::"), std::string::npos) << error;
}

TEST_F(SessionTest, HasAPlanForEachKindOfStep) {
  const Net net(8);
  const at::Tensor shorter = constant({128, 256}, 98);
  Session session({.activation_bytes = plain_peak(net, x_) * 6 / 10});
  for (uint64_t step = 0; step < 6; ++step) {
    const at::Tensor& x = step % 2 == 1 ? x_ : shorter;
    expect_same(train(net, x, step, &session), train(net, x, step));
  }
  EXPECT_EQ(session.report().plans, 2);
  EXPECT_EQ(session.report().followed, 4);
}

TEST_F(SessionTest, ASmallerBatchFollowsThePlanOfALargerOneFirst) {
  const Net net(8);
  const at::Tensor shorter = constant({128, 256}, 98);
  Session session({.activation_bytes = plain_peak(net, x_) * 6 / 10});
  train(net, x_, 0, &session);
  for (uint64_t step = 1; step < 4; ++step) {
    EXPECT_EQ(session.report().plans, 1) << step;
    expect_same(train(net, shorter, step, &session), train(net, shorter, step));
    EXPECT_LE(session.report().measured_peak, session.report().budget_bytes);
  }
  EXPECT_EQ(session.report().plans, 2);
  EXPECT_EQ(session.report().followed, 2);
}

TEST_F(SessionTest, AStepThatLeavesItsPlanIsRight) {
  const Net net(8);
  bool odd = false;
  const auto forward = [&](const at::Tensor& x) { return odd ? net(x).exp() : net(x); };
  const auto run = [&](Session* session) {
    std::optional<Session::Step> step;
    if (session != nullptr) step.emplace(session->step());
    at::manual_seed(3);
    forward(x_).backward();
    const auto grad = net.weights[0].grad().clone();
    for (const at::Tensor& w : net.weights) w.mutable_grad().reset();
    return grad;
  };
  Session session({.activation_bytes = plain_peak(net, x_) * 6 / 10});
  for (const bool leaves : {false, false, true, true, false, true, false}) {
    odd = leaves;
    expect_same_bits(run(&session), run(nullptr), "gradient");
  }
}

TEST_F(SessionTest, BackwardTwiceIsRight) {
  const Net net(6);
  Session session({.activation_bytes = plain_peak(net, x_) * 6 / 10});
  train(net, x_, 0, &session);
  at::manual_seed(1);
  auto step = session.step();
  auto loss = net(x_);
  loss.backward({}, /*retain_graph=*/true);
  loss.backward();
  step.end();
  const auto twice = net.weights[0].grad().clone();
  for (const at::Tensor& w : net.weights) w.mutable_grad().reset();
  const auto once = train(net, x_, 1);
  expect_same_bits(twice, once[1] + once[1], "gradient");
}

TEST_F(SessionTest, AGraphMayOutliveTheSession) {
  const Net net(4);
  at::Tensor loss;
  {
    Session session({.activation_bytes = 64 * 1024 * kKiB});
    auto step = session.step();
    at::manual_seed(5);
    loss = net(x_);
  }
  loss.backward();
  const auto late = net.weights[0].grad().clone();
  for (const at::Tensor& w : net.weights) w.mutable_grad().reset();
  expect_same_bits(late, train(net, x_, 5)[1], "gradient");
}

/// Recording ends in backward, and autograd puts the observers back that backward began with.
TEST_F(SessionTest, LeavesNoObserverBehind) {
  const Net net(4);
  Session session({.activation_bytes = int64_t{64} << 20});
  for (uint64_t step = 0; step < 3; ++step) train(net, x_, step, &session);
  at::add(x_, x_);
  EXPECT_TRUE(at::get_record_function_tls_().sorted_tls_callbacks_.empty());
}

TEST_F(SessionTest, NeedsOneBudget) {
  EXPECT_THROW(Session({}), c10::Error);
  EXPECT_THROW(Session({.activation_bytes = 1, .memory_bytes = 1}), c10::Error);
}

TEST_F(SessionTest, AStepInsideARegionIsAnError) {
  Session session({.activation_bytes = 1024 * kKiB});
  const Region region;
  EXPECT_THROW(session.step(), c10::Error);
}

}  // namespace
}  // namespace remat::testing
