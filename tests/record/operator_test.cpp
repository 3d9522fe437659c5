// Operators whose arguments or results are of a special kind.

#include "remat/record/operator.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

record::Operator operator_named(const char* name, const char* overload = "") {
  return record::Operator(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload));
}

TEST(OperatorTest, ViewsAreKnownByTheirSchema) {
  EXPECT_TRUE(operator_named("aten::t").view);
  EXPECT_TRUE(operator_named("aten::t_").view);
  EXPECT_FALSE(operator_named("aten::exp").view);
  EXPECT_FALSE(operator_named("aten::add_", "Tensor").view);
}

TEST(OperatorTest, CompositesAreNotLeaves) {
  EXPECT_TRUE(operator_named("aten::linear").is_composite(c10::kCPU));
  EXPECT_TRUE(operator_named("aten::matmul").is_composite(c10::kCPU));
  EXPECT_FALSE(operator_named("aten::addmm").is_composite(c10::kCPU));
}

TEST(OperatorTest, ANormsStatisticsAreWrittenWhateverTheSchemaSays) {
  const auto norm = operator_named("aten::native_batch_norm");
  EXPECT_TRUE(norm.arguments[3].statistic);
  EXPECT_TRUE(norm.arguments[4].statistic);
  EXPECT_FALSE(norm.arguments[1].statistic);
  EXPECT_EQ(norm.training, 5);
}

TEST(OperatorTest, OtherNamespacesAreNotBelieved) {
  EXPECT_EQ(operator_named("aten::exp").trust, record::Operator::Trust::aten);
  EXPECT_NE(operator_named("quantized::add").trust, record::Operator::Trust::aten);
}

TEST(OperatorTest, CompositesAreRecordedByWhatTheyCall) {
  const auto x = constant();
  const auto b = constant({4});
  EXPECT_EQ(recorded([&] { at::linear(x, x, b); }), "aten::addmm");
  EXPECT_EQ(recorded([&] { at::matmul(x, x); }), "aten::mm");
}

TEST(OperatorTest, ConcatenationOfAList) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        return at::cat({in[0] * 2, in[1], in[0].exp()}, 1).sin() *
               at::cat({in[1], in[1], in[0]}, 1);
      },
      {leaf(), leaf({4, 4}, 2)});
}

TEST(OperatorTest, StackOfAList) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        return at::stack({in[0] * 2, in[1] * 3}).exp();
      },
      {leaf(), leaf({4, 4}, 2)});
}

TEST(OperatorTest, IndexWithHolesInItsList) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        const auto rows = at::argsort(in[0].detach().sum(1)).narrow(0, 0, 2);
        c10::List<std::optional<at::Tensor>> indices;
        indices.push_back(std::nullopt);
        indices.push_back(rows);
        return at::index(in[0] * 2, indices).exp();
      },
      {leaf()});
}

TEST(OperatorTest, UndefinedArguments) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        const auto normed = std::get<0>(at::native_layer_norm(in[0] * 2, {4}, {}, {}, 1e-5));
        return at::conv1d(normed.unsqueeze(0), in[1]).sin();
      },
      {leaf(), leaf({2, 4, 3}, 2)});
}

TEST(OperatorTest, NumbersAreNoBuffers) {
  const auto x = constant();
  Region region;
  const auto y = x * 2.5;
  EXPECT_EQ(region.tape().reads(0).size(), 1);
  EXPECT_EQ(region.tape().node(0).call->arguments, "other=2.5");
}

TEST(OperatorTest, ABoxedCallMayLieOnADeepStack) {
  const auto add = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor");
  expect_replayed_as_plain(
      [&](const Tensors& in) {
        torch::jit::Stack stack;
        stack.emplace_back(in[0].detach() * 5);  // another's value below the arguments
        stack.emplace_back(42);
        for (const c10::IValue& argument :
             {c10::IValue(in[0]), c10::IValue(in[1]), c10::IValue(2)}) {
          stack.push_back(argument);
        }
        add.callBoxed(stack);
        EXPECT_EQ(stack.size(), 3);
        return stack.back().toTensor().exp();
      },
      {leaf(), constant()});
}

TEST(OperatorTest, ADeepStackIsNotRecorded) {
  const auto exp = c10::Dispatcher::singleton().findSchemaOrThrow("aten::exp", "");
  const auto x = constant();
  const auto another = constant({2});
  Region region;
  torch::jit::Stack stack = {c10::IValue(another), c10::IValue(x)};
  exp.callBoxed(stack);
  ASSERT_EQ(ops_of(region.tape()), "aten::exp");
  EXPECT_EQ(region.tape().reads(0).size(), 1);
  EXPECT_EQ(region.tape().results(0).size(), 1);
}

TEST(OperatorTest, SparseTensorsAreKept) {
  expect_same_as_plain(
      [](const Tensors& in) { return at::mm(in[1].to_sparse(), in[0].exp()).sin(); },
      {leaf(), constant()});
}

/// Quantization is deprecated, and says so once a process.
class Silence : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

TEST(OperatorTest, QuantizedTensorsAreKept) {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  expect_same_as_plain(
      [](const Tensors& in) {
        const auto quantized = at::quantize_per_tensor(in[0].detach(), 0.1, 0, at::kQInt8);
        return (in[0] * quantized.dequantize()).exp();
      },
      {leaf()});
}

TEST(OperatorTest, AnOperatorThatThrowsLeavesNoNode) {
  const auto x = constant();
  EXPECT_EQ(recorded([&] {
              EXPECT_THROW(x.mm(at::ones({3, 3})), c10::Error);
              x.exp();
            }),
            "aten::ones aten::exp");
}

TEST(OperatorTest, TrainingContinuesAfterAnOperatorThrew) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto z = in[0].exp();
        EXPECT_THROW(z.add_(at::ones({3, 3})), c10::Error);
        EXPECT_THROW(at::mm(z, at::ones({3, 3})), c10::Error);
        return z.sin() * (z + 1).exp();
      },
      {leaf()});
}

TEST(OperatorTest, AnOperatorWithoutResultsThatThrewHasWritten) {
  expect_same_as_plain(
      [](const Tensors& in) {
        const std::vector<at::Tensor> pair = {in[0] * 2, in[0] * 3};
        EXPECT_THROW(at::_foreach_add_(pair, {at::ones({4, 4}), at::ones({3, 3})}), c10::Error);
        return pair[0].sin() * pair[1].exp();
      },
      {leaf()});
}

TEST(OperatorTest, ConvolutionIsReplayed) {
  expect_replayed_as_plain(
      [](const Tensors& in) { return at::conv2d(in[0].relu(), in[1], in[2], 1, 1).sigmoid(); },
      {leaf({2, 3, 8, 8}), leaf({4, 3, 3, 3}, 2), leaf({4}, 3)});
}

TEST(OperatorTest, AttentionIsReplayed) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        const auto q = in[0] * 2;
        return at::scaled_dot_product_attention(q, q, q, {}, 0.0, true).exp();
      },
      {leaf({1, 2, 8, 4})});
}

}  // namespace
}  // namespace remat::testing
