// Others may listen to operators as well: a profiler changes nothing of what is recorded.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"
#include "tests/support/operator_log.h"

namespace remat::testing {
namespace {

at::Tensor block(const Tensors& in) {
  return at::dropout(at::linear(in[0], in[1]).relu(), 0.5, true).softmax(1).exp();
}

TEST(ListenerTest, TheTapeIsTheSame) {
  const Tensors in = {leaf(), leaf({4, 4}, 2)};
  const auto alone = recorded([&] { block(in); });
  const OperatorLog log;
  EXPECT_EQ(recorded([&] { block(in); }), alone);
}

TEST(ListenerTest, TheyHearCallsInsideOperators) {
  const OperatorLog log;
  const Region region;
  at::softmax(constant(), 1);
  EXPECT_EQ(log.count("aten::softmax"), 1);
  EXPECT_EQ(log.count("aten::_softmax"), 1);
}

TEST(ListenerTest, GradientsAreThoseOfPlain) {
  const OperatorLog log;
  expect_replayed_as_plain(block, {leaf(), leaf({4, 4}, 2)});
}

}  // namespace
}  // namespace remat::testing
