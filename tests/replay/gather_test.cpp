// Parameters whose storage exists only around use: a gather brings them back for a replay.

#include "remat/gather.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

/// A weight of which the bytes are taken away and given back, as sharded training does.
class Sharded {
 public:
  explicit Sharded(int64_t size)
      : whole_(at::randn({size, size})), weight_(whole_.clone().requires_grad_()) {}

  [[nodiscard]] const at::Tensor& weight() const { return weight_; }
  void free() { weight_.set_data(at::empty({0})); }
  /// Not where forward had it: `shift` elements into a larger buffer.
  void fill(int64_t shift = 0) {
    auto buffer = at::empty({whole_.numel() + shift});
    auto data = buffer.narrow(0, shift, whole_.numel()).view(whole_.sizes());
    weight_.set_data(data.copy_(whole_));
    ++fills;
  }
  void change() { whole_.add_(1); }

  int fills = 0;

 private:
  at::Tensor whole_;
  at::Tensor weight_;
};

/// Gathers one weight while it lives.
class GatherOf {
 public:
  explicit GatherOf(Sharded& sharded, int64_t shift = 0)
      : id_(add_gather([&sharded, shift](const at::Tensor& parameter) -> std::shared_ptr<void> {
          if (!parameter.is_same(sharded.weight())) return nullptr;
          sharded.fill(shift);
          return {&sharded, [](Sharded* filled) { filled->free(); }};
        })) {}
  ~GatherOf() { remove_gather(id_); }
  GatherOf(const GatherOf&) = delete;
  GatherOf& operator=(const GatherOf&) = delete;

 private:
  uint64_t id_;
};

/// Saves what is computed from the weight, never the weight: only a replay reads it again.
at::Tensor forward(const at::Tensor& x, const at::Tensor& weight) {
  return (x + weight).exp().sin() + 1;
}

/// The gradient of x where the weight is freed after the forward pass.
at::Tensor gradient(Sharded& sharded, const at::Tensor& x, const RegionOptions& options = {}) {
  sharded.fill();
  Region region(options);
  const auto sum = forward(x, sharded.weight()).sum();
  region.close();
  sharded.free();
  sharded.fills = 0;
  return torch::autograd::grad({sum}, {x})[0];
}

at::Tensor plain_gradient(Sharded& sharded, const at::Tensor& x) {
  sharded.fill();
  const auto gradient = torch::autograd::grad({forward(x, sharded.weight()).sum()}, {x})[0];
  sharded.free();
  return gradient;
}

/// In elements from an address that a multiple of 64 bytes divides.
class GatherTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(GatherTest, AParameterIsFilledOnceAReplayAndFreedAfterwards) {
  Sharded sharded(8);
  const auto x = leaf({8, 8});
  const auto expected = plain_gradient(sharded, x);
  const GatherOf gather(sharded, GetParam());
  expect_same_bits(gradient(sharded, x), expected, "the gradient");
  EXPECT_EQ(sharded.fills, 1);
  EXPECT_EQ(sharded.weight().numel(), 0);
}

INSTANTIATE_TEST_SUITE_P(At, GatherTest, ::testing::Values(0, 16, 3));

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST(GatherTest, WithoutOneTheErrorSaysWhatIsMissingAndTheWayOut) {
  Sharded sharded(8);
  const auto error = error_of([&] { gradient(sharded, leaf({8, 8})); });
  EXPECT_NE(error.find("float32[8, 8] has no storage"), std::string::npos) << error;
  EXPECT_NE(error.find("remat.gather"), std::string::npos) << error;
}

TEST(GatherTest, OtherBytesThanForwardReadAreAnError) {
  Sharded sharded(8);
  const GatherOf gather(sharded);
  sharded.fill();
  const auto x = leaf({8, 8});
  const auto sum = checkpoint([&] { return forward(x, sharded.weight()).sum(); });
  sharded.free();
  sharded.change();
  const auto error = error_of([&] { torch::autograd::grad({sum}, {x}); });
  EXPECT_NE(error.find("changed after the forward pass"), std::string::npos) << error;
}

TEST(GatherTest, AnErrorOfTheGatherReachesTheUserAndAnotherAttemptSucceeds) {
  Sharded sharded(8);
  const auto x = leaf({8, 8});
  sharded.fill();
  const auto sum = checkpoint([&] { return forward(x, sharded.weight()).sum(); });
  sharded.free();
  const auto failing = add_gather(
      [](const at::Tensor&) -> std::shared_ptr<void> { TORCH_CHECK(false, "a rank is gone"); });
  const auto error = error_of([&] { torch::autograd::grad({sum}, {x}, {}, true); });
  EXPECT_NE(error.find("a rank is gone"), std::string::npos) << error;
  remove_gather(failing);
  const GatherOf gather(sharded);
  const auto again = torch::autograd::grad({sum}, {x})[0];
  expect_same_bits(again, plain_gradient(sharded, x), "the gradient");
}

TEST(GatherTest, AVerifiedReplayGathersToo) {
  Sharded sharded(8);
  const auto x = leaf({8, 8});
  const auto expected = plain_gradient(sharded, x);
  const GatherOf gather(sharded, 3);
  expect_same_bits(gradient(sharded, x, {.verify = true}), expected, "the gradient");
}

}  // namespace
}  // namespace remat::testing
