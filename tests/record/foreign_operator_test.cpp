// Operators of other namespaces: their schema is not believed, their results are kept, what they
// write is noticed.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include "remat/remat.h"
#include "tests/support/compare.h"
#include "tests/support/operator_log.h"

namespace remat::testing {
namespace {

int calls = 0;

/// Another number every time: no function of its arguments.
at::Tensor counted(const at::Tensor& x) { return x.detach() * static_cast<double>(++calls); }

/// Writes through the pointer, which its schema does not say.
at::Tensor liar(const at::Tensor& x) {
  x.data_ptr<float>()[0] += 1;
  return at::zeros({});
}

TORCH_LIBRARY(remat_test, library) {
  library.def("counted(Tensor x) -> Tensor");
  library.def("liar(Tensor x) -> Tensor");
  library.def("composite(Tensor x) -> Tensor", [](const at::Tensor& x) { return x.sin().exp(); });
}

TORCH_LIBRARY_IMPL(remat_test, CPU, library) {
  library.impl("counted", &counted);
  library.impl("liar", &liar);
}

at::Tensor call(const char* name, const at::Tensor& x) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  return op.typed<at::Tensor(const at::Tensor&)>().call(x);
}

TEST(ForeignOperatorTest, RunsOnceAndItsResultIsKept) {
  const auto x = leaf();
  calls = 0;
  at::Tensor factor;
  const auto y = checkpoint([&] {
    factor = call("remat_test::counted", x.detach().exp());
    return (x * factor).exp();
  });
  y.sum().backward();
  EXPECT_EQ(calls, 1);
  expect_same_bits(x.grad(), (y * factor).detach(), "the gradient");
}

TEST(ForeignOperatorTest, IsNotOnTheTape) {
  const auto x = constant();
  EXPECT_EQ(recorded([&] { call("remat_test::counted", x.exp()); }), "aten::exp");
}

TEST(ForeignOperatorTest, ACompositeOneIsRecordedByWhatItCalls) {
  const auto x = constant();
  EXPECT_EQ(recorded([&] { call("remat_test::composite", x); }), "aten::sin aten::exp");
}

TEST(ForeignOperatorTest, AnArgumentItWritesUnseenIsKept) {
  expect_same_as_plain(
      [](const Tensors& in) {
        const auto z = in[0].detach() * 2;
        const auto before = (in[0] + z).exp();
        call("remat_test::liar", z);
        return before * (in[0] + z).exp();
      },
      {leaf()});
}

}  // namespace
}  // namespace remat::testing
