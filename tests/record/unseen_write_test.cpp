// Writes that no operator of the region shows: noticed at the next sight of the buffer, whose
// content is then unknown and kept.

#include <array>

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

void write_raw(const at::Tensor& tensor, float value) { tensor.data_ptr<float>()[0] = value; }

TEST(UnseenWriteTest, AFactoryFilledThroughAPointerIsKept) {
  for (const auto& make : {+[] {
                             return at::zeros({4, 4});
                           },
                           +[] {
                             return at::ones({4, 4});
                           },
                           +[] {
                             return at::full({4, 4}, 2.5);
                           },
                           +[] { return constant().clone(); }}) {
    expect_same_as_plain(
        [&](const Tensors& in) {
          const auto z = make();
          write_raw(z, 5);
          return in[0] * z;
        },
        {leaf()});
  }
}

TEST(UnseenWriteTest, AFactoryLeftAloneIsRecomputed) {
  const auto x = leaf();
  EXPECT_EQ(saved_by([&] { static_cast<void>(x * at::zeros({4, 4})); }), "recomputed 64");
}

TEST(UnseenWriteTest, EmptyIsKeptUntilAllOfItIsWritten) {
  const auto x = leaf();
  EXPECT_EQ(saved_by([&] {
              auto z = at::empty({4, 4});
              z.narrow(0, 0, 2).fill_(1);
              write_raw(z.select(0, 3), 2);
              static_cast<void>(x * z);
            }).find("recomputed"),
            std::string::npos);
}

TEST(UnseenWriteTest, EmptyWrittenInPartsHoldsWhatItHeld) {
  expect_same_as_plain(
      [](const Tensors& in) {
        auto z = at::empty({4, 4});
        for (int i = 0; i < 4; ++i)
          write_raw(z.select(0, i).narrow(0, 3, 1), 1.5F * static_cast<float>(i));
        z.narrow(1, 0, 3).fill_(1);
        return (in[0] * z).exp();
      },
      {leaf()});
}

TEST(UnseenWriteTest, EmptyFullyWrittenIsRecomputed) {
  const auto x = leaf();
  const auto y = constant();
  EXPECT_EQ(saved_by([&] {
              auto z = at::empty({4, 4});
              z.copy_(y);
              static_cast<void>(x * z);
            }),
            "recomputed 64");
}

TEST(UnseenWriteTest, OperatorsThatFireNoEventAreNoticed) {
  expect_same_as_plain(
      [](const Tensors& in) {
        auto z = in[0] * 2;
        const auto before = (z + 1).exp();
        {
          const at::DisableRecordFunctionGuard quiet;
          z.add_(1);
        }
        return before * (z + 1).exp() * z;
      },
      {leaf()});
}

TEST(UnseenWriteTest, ResultsOfOperatorsThatFireNoEventAreKept) {
  expect_same_as_plain(
      [](const Tensors& in) {
        at::Tensor z;
        {
          const at::DisableRecordFunctionGuard quiet;
          z = in[0].exp();
        }
        return z.sin() * (z + 1).exp();
      },
      {leaf()});
}

TEST(UnseenWriteTest, AWriteOnAnotherThreadIsNoticed) {
  expect_same_as_plain(
      [](const Tensors& in) {
        auto z = in[0].detach() * 2;
        const auto before = (in[0] + z).exp();
        std::thread([&] { z.add_(1); }).join();
        return before * (in[0] + z).exp();
      },
      {leaf()});
}

TEST(UnseenWriteTest, ATensorOverTheSameMemoryIsTheSameBuffer) {
  expect_same_as_plain(
      [](const Tensors& in) {
        const auto z = in[1] * 2;
        const auto before = (in[0] + z).exp();
        auto alias = at::from_blob(z.data_ptr(), z.sizes());
        alias.add_(1);
        const auto after = (in[0] + z).exp();
        return before * after * z;
      },
      {leaf(), constant()});
}

TEST(UnseenWriteTest, ForeignMemoryIsKept) {
  std::array<float, 4> memory = {1, 2, 3, 4};
  const auto x = leaf({4});
  const auto y = at::from_blob(memory.data(), {4});
  EXPECT_EQ(saved_by([&] { static_cast<void>(x * y); }), "input 16");
}

TEST(UnseenWriteTest, AWriteBetweenTwoReadersChangesTheSecondOnly) {
  expect_same_as_plain(
      [](const Tensors& in) {
        const auto source = in[1].clone();
        const auto first = (in[0] + source).exp();
        write_raw(source, 9);
        const auto second = (in[0] + source).exp();
        return first * second;
      },
      {leaf(), constant()});
}

TEST(UnseenWriteTest, DetachedWritesAreSeen) {
  expect_same_as_plain(
      [](const Tensors& in) {
        auto z = in[0] * 2;
        const auto before = (z + 1).exp();
        z.detach().mul_(3);  // shares the counter
        z.tensor_data().add_(1);
        return before * (z + 1).exp();
      },
      {leaf()});
}

TEST(UnseenWriteTest, WritesThroughVariableDataAreSeen) {
  expect_same_as_plain(
      [](const Tensors& in) {
        auto z = in[0] * 2;
        const auto before = (z + 1).exp();
        z.variable_data().mul_(3);  // has a counter of its own
        return before * (z + 1).exp();
      },
      {leaf()});
}

}  // namespace
}  // namespace remat::testing
