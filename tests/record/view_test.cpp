// Views are geometry on a value: they share its buffer and make no node.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

TEST(ViewTest, MakesNoNode) {
  const auto x = leaf();
  EXPECT_EQ(recorded([&] {
              x.view({16}).unsqueeze(0).expand({3, 16}).t();
              x.narrow(0, 1, 2).select(1, 0).detach();
              x.as_strided({2, 2}, {4, 1}, 1).chunk(2);
              x.unbind(0)[1].unflatten(0, {2, 2}).diagonal();
            }),
            "");
}

TEST(ViewTest, ReadsTheValueOfItsBase) {
  const auto x = leaf();
  Region region;
  const auto z = x.exp();
  const auto sine = z.t().narrow(0, 1, 2).sin();
  EXPECT_EQ(ops_of(region.tape()), "aten::exp aten::sin");
  EXPECT_EQ(region.tape().reads(1)[0], region.tape().results(0)[0]);
  EXPECT_EQ(tape::to_text(region.tape().node(1).call->reads[0]),
            "float32[2, 4] strides [1, 4] offset 1");
}

TEST(ViewTest, TwoViewsReadOneBuffer) {
  const auto x = leaf();
  Region region;
  const auto z = x.exp();
  const auto product = z.view({16}) * z.t().reshape({16});
  const auto& tape = region.tape();
  const auto product_reads = tape.reads(static_cast<tape::NodeId>(tape.nodes() - 1));
  EXPECT_EQ(tape.value(product_reads[0]).buffer, tape.value(tape.results(0)[0]).buffer);
}

TEST(ViewTest, InPlaceChangesOfGeometryMakeNoNode) {
  const auto x = constant();
  EXPECT_EQ(recorded([&] {
              auto z = x.exp();
              z.t_();
              z.unsqueeze_(0);
              z.squeeze_();
              z.transpose_(0, 1);
              z.detach_();
            }),
            "aten::exp");
}

TEST(ViewTest, AWriteThroughAViewIsAWriteToTheBase) {
  const auto x = leaf();
  Region region;
  auto z = x.exp();
  z.narrow(0, 0, 2).add_(1);
  const auto sine = z.sin();
  const auto& tape = region.tape();
  ASSERT_EQ(ops_of(tape), "aten::exp aten::add_.Scalar aten::sin");
  EXPECT_EQ(tape.reads(2)[0], tape.writes(1)[0]);
  EXPECT_EQ(tape.value(tape.writes(1)[0]).buffer, tape.value(tape.results(0)[0]).buffer);
}

TEST(ViewTest, AWriteThroughAViewIsReplayed) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto z = in[0] * 2;
        z.narrow(0, 0, 2).mul_(3);
        z.select(1, 0).add_(1);
        return z.sin().t().exp();
      },
      {leaf()});
}

TEST(ViewTest, LazyConjugationAndNegationAreReplayed) {
  const auto x = at::complex(constant({4}, 1), constant({4}, 2)).set_requires_grad(true);
  expect_replayed_as_plain(
      [](const Tensors& in) {
        const auto z = in[0] * 2;
        const auto conjugate = z.conj();
        return at::real(conjugate * z.exp()) + at::imag(conjugate.exp().conj()).sin();
      },
      {x});
}

TEST(ViewTest, AViewAsAnotherTypeIsReplayed) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        const auto bits = (in[0].detach() * 2).view(at::kInt).bitwise_and(0x7F800000);
        return in[0] * bits.view(at::kFloat);
      },
      {leaf()});
}

TEST(ViewTest, SplitAndUnbindAreReplayed) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        const auto parts = in[0].exp().chunk(2, 1);
        const auto rows = (parts[0] * parts[1]).unbind(0);
        return rows[0].sin() * rows[3].exp();
      },
      {leaf()});
}

}  // namespace
}  // namespace remat::testing
