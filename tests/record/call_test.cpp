// Calls are interned: what repeats is stored once.

#include "remat/record/call.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

/// Whether the first and the last call that `body` makes are one object.
bool share_a_call(const std::function<void()>& body) {
  Region region;
  body();
  const auto& tape = region.tape();
  return tape.node(0).call == tape.node(static_cast<tape::NodeId>(tape.nodes() - 1)).call;
}

TEST(CallTest, EqualCallsAreOneObject) {
  const auto x = constant();
  const auto y = constant();
  EXPECT_TRUE(share_a_call([&] {
    x.add(y, 2);
    y.add(x, 2);
  }));
}

TEST(CallTest, AcrossRegionsToo) {
  const auto x = constant();
  const auto call_of_exp = [&] {
    Region region;
    x.exp();
    return region.tape().node(0).call;
  };
  EXPECT_EQ(call_of_exp(), call_of_exp());
}

TEST(CallTest, OtherNumbersAreAnotherCall) {
  const auto x = constant();
  EXPECT_FALSE(share_a_call([&] {
    x.add(x, 2);
    x.add(x, 3);
  }));
  EXPECT_FALSE(share_a_call([&] {
    x.mul(2);
    x.mul(2.0);
  }));
}

TEST(CallTest, OtherShapesStridesAndTypesAreAnotherCall) {
  const auto x = constant();
  const std::vector<at::Tensor> others = {constant({2, 8}), x.t(), x.narrow(0, 0, 2),
                                          x.to(at::kDouble)};
  for (const at::Tensor& other : others) {
    EXPECT_FALSE(share_a_call([&] {
      x.exp();
      other.exp();
    })) << other.sizes();
  }
}

TEST(CallTest, AnOverwriteAndAWriteOfAPartDiffer) {
  const auto x = constant({4});
  Region region;
  auto whole = x.exp();
  auto part = at::cat({x, x});
  whole.copy_(x);
  part.narrow(0, 0, 4).copy_(x);
  const auto& tape = region.tape();
  ASSERT_EQ(ops_of(tape), "aten::exp aten::cat aten::copy_ aten::copy_");
  EXPECT_EQ(tape.node(2).call->reads, tape.node(3).call->reads);
  EXPECT_NE(tape.node(2).call, tape.node(3).call);
}

TEST(CallTest, OtherSurroundingsAreAnotherCall) {
  const auto x = constant();
  EXPECT_FALSE(share_a_call([&] {
    x.exp();
    const c10::AutoGradMode no_grad(false);
    x.exp();
  }));
}

TEST(CallTest, ArgumentsArePrintedByName) {
  const auto x = constant();
  Region region;
  x.sum({1}, true);
  EXPECT_EQ(region.tape().node(0).call->arguments, "dim=[1], keepdim=True");
}

TEST(CallTest, HoldsNoTensorOfTheForwardPass) {
  auto x = constant();
  const c10::weak_intrusive_ptr<c10::StorageImpl> storage(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(x.storage().unsafeGetStorageImpl()));
  {
    const Region region;
    at::cat({x, x.exp()});
  }
  x.reset();
  EXPECT_TRUE(storage.expired());
}

}  // namespace
}  // namespace remat::testing
