// Autocast: the calls with cast arguments are recorded, and a replay casts nothing by itself.

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

class AutocastScope {
 public:
  AutocastScope() {
    at::autocast::set_autocast_enabled(c10::kCPU, true);
    at::autocast::set_autocast_dtype(c10::kCPU, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~AutocastScope() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(c10::kCPU, false);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;
};

at::Tensor two_layers(const Tensors& in) {
  const AutocastScope autocast;
  return at::linear(at::linear(in[0], in[1], in[2]).relu(), in[1], in[2]).softmax(1);
}

TEST(AutocastTest, RecordsTheCastsAndTheCastOperator) {
  const auto x = constant();
  EXPECT_EQ(recorded([&] {
              const AutocastScope autocast;
              x.mm(x);
            }),
            "aten::_to_copy aten::_to_copy aten::mm");
}

TEST(AutocastTest, IsReplayedOutsideOfAutocast) {
  expect_replayed_as_plain(two_layers, {leaf(), leaf({4, 4}, 2), leaf({4}, 3)});
}

TEST(AutocastTest, OperatorsThatRunInFloatAreReplayed) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        const AutocastScope autocast;
        return in[0].mm(in[0]).exp().log().mm(in[1]).sum(0);
      },
      {leaf(), leaf({4, 4}, 2)});
}

TEST(AutocastTest, ACastOfAParameterIsKept) {
  const auto x = constant();
  const auto w = leaf();
  const auto v = leaf();
  const auto saved = saved_by([&] {
    const AutocastScope autocast;
    static_cast<void>(x.mm(w));
  });
  // mm saves the cast of x only: w's gradient alone is wanted. It is recomputed, that of w is not
  // needed.
  EXPECT_EQ(saved, "recomputed 32");
  EXPECT_EQ(saved_by([&] {
              const AutocastScope autocast;
              static_cast<void>(v.mm(w));
            }),
            "policy 64");
}

TEST(AutocastTest, AParameterMayBeUpdatedBeforeBackward) {
  expect_same_as_plain(
      [](const Tensors& in) {
        const AutocastScope autocast;
        return in[0].mm(in[1]).exp();
      },
      {leaf(), leaf({4, 4}, 2)},
      [](const Tensors& in) {
        const c10::AutoGradMode no_grad(false);
        in[1].mul_(2);
      });
}

}  // namespace
}  // namespace remat::testing
