// Verify mode: the error names what differs first, and why.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

const RegionOptions kVerified = {.verify = true};

/// Changes an element that the spot guard does not sample, and moves no version counter.
void write_unseen(const at::Tensor& tensor) { tensor.data_ptr<float>()[5] += 1; }

int calls = 0;

/// Another result every time.
at::Tensor drifting(const at::Tensor& x) {
  auto y = x.clone();
  y.data_ptr<float>()[5] += static_cast<float>(++calls);
  return y;
}

TORCH_LIBRARY(remat_verify_test, library) { library.def("drifting(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(remat_verify_test, CPU, library) { library.impl("drifting", &drifting); }

at::Tensor call_drifting(const at::Tensor& x) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow("remat_verify_test::drifting", "")
      .typed<at::Tensor(const at::Tensor&)>()
      .call(x);
}

/// What backward raises, with `between` after the forward pass.
std::string error_of(const Forward& forward, const at::Tensor& x, const Between& between) {
  Region region(kVerified);
  const auto sum = forward({x}).sum();
  region.close();
  between({x});
  try {
    sum.backward();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

void expect_in(const std::string& error, const std::string& part) {
  EXPECT_NE(error.find(part), std::string::npos) << error;
}

const Between kNothing = [](const Tensors&) {};

TEST(VerifyTest, ARightProgramPasses) {
  expect_replayed_as_plain(
      [](const Tensors& in) {
        auto z = (in[0] * 2).exp() + 1;
        z.narrow(0, 1, 2).mul_(in[0].narrow(0, 0, 2).detach());
        return at::dropout(z.t(), 0.5, true).sin().tanh() * 1;
      },
      {leaf({16, 16})}, kNothing, kVerified);
}

TEST(VerifyTest, AnExternalThatWasChanged) {
  const auto large = constant({160, 160});
  const auto error = error_of([&](const Tensors& in) { return ((in[0] + large).exp().sin()) * 1; },
                              leaf({160, 160}), [&](const Tensors&) { write_unseen(large); });
  expect_in(error, "float32[160, 160], which was made outside the region and is read in it");
  expect_in(error, "one of the elements [0, 0] to [0, 63]");
}

TEST(VerifyTest, AWriteThatNobodySaw) {
  const auto error = error_of(
      [](const Tensors& in) {
        const auto z = in[0] * 2;
        write_unseen(z);
        return (z + 1).exp().sin() * 1;
      },
      leaf({16, 16}), kNothing);
  expect_in(error,
            "the result of aten::mul.Scalar, float32[16, 16], was changed before "
            "aten::add.Scalar read it, first in element [0, 5]");
}

TEST(VerifyTest, AKernelThatDoesNotRepeatItself) {
  declare_replayable("remat_verify_test::drifting");
  const auto error =
      error_of([](const Tensors& in) { return in[0] * call_drifting(in[0].detach()).exp() * 1; },
               leaf({16, 16}), kNothing);
  expect_in(error,
            "recomputing remat_verify_test::drifting, float32[16, 16], gave other values, "
            "first in element [0, 5]");
  expect_in(error, "the kernel does not repeat its own results");
}

TEST(VerifyTest, ResultsWithBytesThatNobodyReadsAreNoFault) {
  const std::vector<at::Tensor> weights = {at::randn({32, 4}), at::randn({32, 8}), at::randn({32}),
                                           at::randn({32})};
  for (const auto& weight : weights) weight.requires_grad_();
  expect_replayed_as_plain(
      [&](const Tensors& in) {
        const auto zero = at::zeros({1, 4, 8});
        const auto out = at::lstm(in[0].view({1, 4, 4}), {zero, zero}, weights, true, 1, 0.0, true,
                                  false, false);
        return std::get<0>(out).sin() * 1;
      },
      {leaf()}, kNothing, kVerified);
}

TEST(VerifyTest, AnInnerRegionTurnsItOn) {
  declare_replayable("remat_verify_test::drifting");
  const auto x = leaf({16, 16});
  Region outer;
  Region inner(kVerified);
  const auto sum = (x * call_drifting(x.detach()).exp() * 1).sum();
  inner.close();
  outer.close();
  EXPECT_THROW(sum.backward(), c10::Error);
}

}  // namespace
}  // namespace remat::testing
