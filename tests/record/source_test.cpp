// What a region is given: parameters are known by tensor, small tensors are copied, large ones are
// held and checked.

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/bytes.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

constexpr int64_t kLarge = 20'000;  // floats: above the 64 KiB up to which sources are copied

void fill(const at::Tensor& tensor, double value) {
  const c10::AutoGradMode no_grad(false);
  tensor.fill_(value);
}

at::Tensor sum_exp(const Tensors& in) { return (in[0] + in[1]).exp(); }

TEST(SourceTest, ASmallOneMayBeRefilledBeforeBackward) {
  expect_replayed_as_plain(sum_exp, {leaf(), constant()},
                           [](const Tensors& in) { fill(in[1], 7); });
}

TEST(SourceTest, ALargeOneThatChangedIsAnErrorThatNamesOperatorAndShape) {
  const auto error = error_in_backward(sum_exp, {leaf({kLarge}), constant({kLarge})},
                                       [](const Tensors& in) { fill(in[1], 7); });
  EXPECT_NE(error.find("modified by an inplace operation"), std::string::npos) << error;
  EXPECT_NE(error.find("float32[20000]"), std::string::npos) << error;
  EXPECT_NE(error.find("aten::add.Tensor"), std::string::npos) << error;
}

TEST(SourceTest, ALargeOneWrittenThroughAPointerIsAnErrorToo) {
  const auto error = error_in_backward(sum_exp, {leaf({kLarge}), constant({kLarge})},
                                       [](const Tensors& in) { in[1].data_ptr<float>()[0] = 7; });
  EXPECT_NE(error.find("modified by an inplace operation"), std::string::npos) << error;
}

TEST(SourceTest, ALargeOneIsHeldWithoutACopy) {
  const auto x = leaf({kLarge});
  auto source = constant({kLarge});
  const Bytes bytes;
  Region region;
  {
    const auto y = x + source;
    EXPECT_EQ(bytes.live(), 4 * kLarge);  // y alone
  }
  EXPECT_EQ(region.held_bytes(), 4 * kLarge);
}

TEST(SourceTest, IsHeldWithoutItsGraph) {
  auto source = leaf({kLarge}).exp();
  const c10::weak_intrusive_ptr<c10::TensorImpl> graph(source.getIntrusivePtr());
  const auto y = checkpoint([](const at::Tensor& in) { return (in.detach() + 1).exp(); }, source);
  source.reset();
  EXPECT_TRUE(graph.expired());
}

TEST(SourceTest, AWriteInsideTheRegionTakesAPreImage) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto before = (in[0] + in[1]).exp();
        in[1].add_(1);
        const auto after = (in[0] + in[1]).exp();
        return before * after;
      },
      {leaf({kLarge}), constant({kLarge})});
}

TEST(SourceTest, AWriteKeepsWhatWasReadWhereThatIsSmaller) {
  const auto x = leaf({200});
  const auto cache = constant({200, 200});
  auto before = cache.sum(1);
  at::Tensor loss;
  Region region;
  {
    const auto read = cache.sum(1);
    cache.add_(1);
    loss = (x * read).exp().sum();
  }
  region.close();
  EXPECT_EQ(region.held_bytes(), 200 * 4);  // what was read, not the cache
  loss.backward();
  expect_same_bits(x.grad(), ((x * before).exp() * before).detach(), "the gradient");
}

TEST(SourceTest, AWriteThatNoReaderPrecedesTakesNone) {
  const auto x = leaf({kLarge});
  auto source = constant({kLarge});
  Region region;
  source.add_(1);
  const auto y = (x + source).exp();
  region.close();
  EXPECT_EQ(region.held_bytes(), 4 * kLarge);  // the source, once
}

TEST(ParameterTest, AWriteInsideTheRegionTakesAPreImage) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto before = (in[0] + in[1]).exp();
        const c10::AutoGradMode no_grad(false);
        in[1].mul_(2);
        return before;
      },
      {leaf({kLarge}), leaf({kLarge}, 2)});
}

TEST(ParameterTest, WrittenThroughADetachedTensorThatWasMetBefore) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        const auto detached = in[1].detach();
        detached.add_(1);
        auto before = (in[0] + in[1]).exp();
        detached.add_(1);
        return before;
      },
      {leaf(), leaf({4, 4}, 2)});
}

TEST(ParameterTest, OverwrittenThroughADetachedTensorThatWasMetBefore) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        const auto detached = in[1].detach();
        detached.zero_();
        auto before = (in[0] + in[1]).exp();
        detached.add_(1);
        return before;
      },
      {leaf(), leaf({4, 4}, 2)});
}

TEST(ParameterTest, WrittenAfterItWasReadThroughADetachedTensor) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto before = (in[0] + in[1].detach()).exp();
        const c10::AutoGradMode no_grad(false);
        in[1].add_(1);
        return before;
      },
      {leaf({kLarge}), leaf({kLarge}, 2)});
}

TEST(ParameterTest, AWriteIsNeverANode) {
  const auto w = leaf();
  EXPECT_EQ(recorded([&] {
              const c10::AutoGradMode no_grad(false);
              w.mul_(2);
              w.detach().add_(1);
            }),
            "");
}

TEST(ParameterTest, ChangedAfterTheRegionIsAnError) {
  const auto error = error_in_backward(sum_exp, {leaf({kLarge}), leaf({kLarge}, 2)},
                                       [](const Tensors& in) { fill(in[1], 7); });
  EXPECT_NE(error.find("modified by an inplace operation"), std::string::npos) << error;
  EXPECT_NE(error.find("aten::add.Tensor"), std::string::npos) << error;
}

TEST(ParameterTest, ItsStorageMayBeSwappedAndRestored) {
  expect_replayed_as_plain(sum_exp, {leaf(), leaf({4, 4}, 2)}, [](const Tensors& in) {
    const auto& parameter = in[1];
    const auto original = parameter.tensor_data();
    parameter.set_data(at::zeros({4, 4}));
    parameter.set_data(original.clone());
  });
}

TEST(ParameterTest, IsTheSameOneUnderASwappedStorage) {
  const auto w = leaf();
  Region region;
  const auto first = w.exp();
  w.set_data(w.tensor_data().clone());
  const auto second = w.sin();
  EXPECT_EQ(region.tape().reads(0)[0], region.tape().reads(1)[0]);
}

TEST(ParameterTest, SwappedForOtherNumbersIsLoud) {
  const auto error =
      error_in_backward(sum_exp, {leaf({kLarge}), leaf({kLarge}, 2)},
                        [](const Tensors& in) { in[1].set_data(at::zeros({kLarge})); });
  EXPECT_NE(error.find("aten::"), std::string::npos) << error;
}

TEST(ParameterTest, WithoutStorageAtBackwardIsAnErrorThatSaysSo) {
  const auto error =
      error_in_backward(sum_exp, {leaf({kLarge}), leaf({kLarge}, 2)}, [](const Tensors& in) {
        in[1].unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()->set_nbytes(0);
      });
  EXPECT_NE(error.find("has no storage when backward recomputes from it"), std::string::npos)
      << error;
}

TEST(ParameterTest, AViewOfItIsIt) {
  const auto w = leaf();
  EXPECT_EQ(saved_by([&] { static_cast<void>(w.t().sin()); }), "parameter 64");
}

TEST(ParameterTest, AGradientFreeInputIsNone) {
  const auto x = leaf();
  const auto y = constant();
  EXPECT_EQ(saved_by([&] { static_cast<void>(x * y); }), "input 64");
}

}  // namespace
}  // namespace remat::testing
