// The spot guard: what is recomputed must be what was saved, or an error names the operator.

#include <limits>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

/// Reads two ends of its second input: the first is looked at again before a replay, the second
/// nobody checks.
at::Tensor both_ends(const Tensors& in) {
  const auto front = (in[0] + in[1].narrow(0, 0, 64)).exp();
  const auto back = (in[0] + in[1].narrow(0, 19'000, 64)).tanh();
  return front * back;
}

const Tensors kInputs = {leaf({64}), constant({20'000})};

TEST(GuardTest, ARawWriteIsAnErrorThatNamesTheOperator) {
  const auto error = error_in_backward(
      both_ends, kInputs, [](const Tensors& in) { in[1].data_ptr<float>()[19'000] += 1; });
  EXPECT_NE(error.find("remat: recomputing aten::tanh gave other values than the forward pass "
                       "saved (float32[64])"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("keep_ops([\"aten::tanh\"])"), std::string::npos) << error;
}

TEST(GuardTest, AWriteThatNobodyReadsIsNone) {
  expect_replayed_as_plain(both_ends, kInputs,
                           [](const Tensors& in) { in[1].data_ptr<float>()[10'000] += 1; });
}

TEST(GuardTest, AnErrorLeavesNothingOpen) {
  error_in_backward(both_ends, kInputs,
                    [](const Tensors& in) { in[1].data_ptr<float>()[19'000] += 1; });
  expect_replayed_as_plain(both_ends, kInputs);
}

TEST(GuardTest, NotANumberIsEqualToItself) {
  const auto nan = at::full({64}, std::numeric_limits<float>::quiet_NaN());
  expect_replayed_as_plain([](const Tensors& in) { return (in[0] + in[1]).exp(); },
                           {leaf({64}), nan});
}

}  // namespace
}  // namespace remat::testing
