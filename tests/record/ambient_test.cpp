// What a kernel reads besides its arguments: a replay sees it as the forward pass did, and puts
// back what it found.

#include "remat/record/ambient.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/ScalarTypeToTypeMeta.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"
#include "tests/support/operator_log.h"

namespace remat::testing {
namespace {

using record::Ambient;
using record::AmbientScope;

class AmbientTest : public ::testing::Test {
 protected:
  /// The surroundings that the replay of a matrix product sees where forward ran between `set` and
  /// `unset`.
  Ambient during_replay(const std::function<void()>& set, const std::function<void()>& unset) {
    const auto x = leaf();
    set();
    const auto loss = checkpoint([&] { return x.mm(x).exp().sum(); });
    unset();
    OperatorLog log;
    std::optional<Ambient> seen;
    log.before("aten::mm", [&] {
      if (!seen) seen = Ambient::current();  // the first one: backward multiplies too
    });
    loss.backward();
    EXPECT_TRUE(seen.has_value());
    EXPECT_EQ(Ambient::current(), before_);
    return seen.value_or(before_);
  }

  const Ambient before_ = Ambient::current();
};

TEST_F(AmbientTest, GradMode) {
  EXPECT_TRUE(during_replay([] {}, [] {}).grad_mode);  // though the engine turns it off
}

TEST_F(AmbientTest, Threads) {
  const int threads = before_.threads;
  const auto seen = during_replay([&] { at::set_num_threads(threads + 1); },
                                  [&] { at::set_num_threads(threads); });
  EXPECT_EQ(seen.threads, threads + 1);
}

TEST_F(AmbientTest, DefaultType) {
  const auto seen =
      during_replay([] { c10::set_default_dtype(c10::scalarTypeToTypeMeta(at::kDouble)); },
                    [] { c10::set_default_dtype(c10::scalarTypeToTypeMeta(at::kFloat)); });
  EXPECT_EQ(seen.default_dtype, at::kDouble);
}

TEST_F(AmbientTest, OneDnn) {
  const auto seen = during_replay([] { at::globalContext().setUserEnabledMkldnn(false); },
                                  [] { at::globalContext().setUserEnabledMkldnn(true); });
  EXPECT_FALSE(seen.mkldnn);
}

TEST_F(AmbientTest, Determinism) {
  const auto seen =
      during_replay([] { at::globalContext().setDeterministicAlgorithms(true, true); },
                    [] { at::globalContext().setDeterministicAlgorithms(false, false); });
  EXPECT_TRUE(seen.deterministic);
  EXPECT_TRUE(seen.deterministic_warn_only);
}

TEST_F(AmbientTest, MatmulPrecision) {
  const auto set = [](at::Float32Precision precision) {
    at::globalContext().setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL,
                                            precision);
  };
  const auto seen = during_replay([&] { set(at::Float32Precision::BF16); },
                                  [&] { set(before_.precision.mkldnn_matmul); });
  EXPECT_EQ(seen.precision.mkldnn_matmul, at::Float32Precision::BF16);
}

TEST_F(AmbientTest, FlushDenormal) {
  if (!at::Context::setFlushDenormal(true)) GTEST_SKIP() << "this processor cannot flush denormals";
  at::Context::setFlushDenormal(false);
  const auto seen = during_replay([] { at::Context::setFlushDenormal(true); },
                                  [] { at::Context::setFlushDenormal(false); });
  EXPECT_TRUE(seen.flush_denormal);
}

TEST_F(AmbientTest, FlushedDenormalsAreFlushedAgain) {
  if (!at::Context::setFlushDenormal(true)) GTEST_SKIP() << "this processor cannot flush denormals";
  at::Context::setFlushDenormal(false);
  const auto tiny = at::full({4}, 1e-39);
  expect_replayed_as_plain(
      [](const Tensors& in) {
        at::Context::setFlushDenormal(true);
        auto y = in[0] * (in[1] * 0.5);
        at::Context::setFlushDenormal(false);
        return y;
      },
      {leaf({4}), tiny});
}

TEST_F(AmbientTest, AResultInTheDefaultTypeOfForwardIsReplayed) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        c10::set_default_dtype(c10::scalarTypeToTypeMeta(at::kDouble));
        auto y = in[0] * at::linspace(0, 1, 4).exp();
        c10::set_default_dtype(c10::scalarTypeToTypeMeta(at::kFloat));
        return y;
      },
      {leaf({4}).to(at::kDouble).detach().set_requires_grad(true)});
}

TEST_F(AmbientTest, IsOneObjectAsLongAsNothingChanges) {
  const auto first = record::interned_ambient(c10::kCPU);
  EXPECT_EQ(record::interned_ambient(c10::kCPU), first);
  at::globalContext().setUserEnabledNNPACK(!first->nnpack);
  EXPECT_NE(record::interned_ambient(c10::kCPU), first);
  at::globalContext().setUserEnabledNNPACK(first->nnpack);
}

TEST_F(AmbientTest, SeesThePrecisionOfMatrixProductsOfTheDeviceThatMultiplies) {
  const auto first = record::interned_ambient(c10::kCPU);
  auto wanted = *first;
  wanted.precision.mkldnn_matmul = at::Float32Precision::BF16;
  AmbientScope scope;
  scope.switch_to(wanted);
  EXPECT_EQ(record::interned_ambient(std::nullopt), first);
  EXPECT_NE(record::interned_ambient(c10::kCPU), first);
}

TEST_F(AmbientTest, AScopeSwitchesThereAndBack) {
  auto wanted = before_;
  wanted.grad_mode = !wanted.grad_mode;
  wanted.deterministic_fill = !wanted.deterministic_fill;
  wanted.cudnn_benchmark = !wanted.cudnn_benchmark;
  {
    AmbientScope scope;
    scope.switch_to(wanted);
    EXPECT_EQ(Ambient::current(), wanted);
  }
  EXPECT_EQ(Ambient::current(), before_);
}

}  // namespace
}  // namespace remat::testing
