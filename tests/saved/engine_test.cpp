#include "remat/saved/engine.h"

#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

namespace remat::testing {
namespace {

/// Whether autograd would hand tensors that it saves on this thread to somebody.
bool hooks_are_present() {
  return torch::autograd::Engine::get_default_engine().get_default_saved_variable_hooks() !=
         nullptr;
}

TEST(EngineTest, HooksArePresentWhileARegionIsOpen) {
  Region region;
  EXPECT_TRUE(hooks_are_present());
  region.close();
  EXPECT_FALSE(hooks_are_present());
}

TEST(EngineTest, HooksAreAbsentOnOtherThreads) {
  const Region region;
  std::thread([] { EXPECT_FALSE(hooks_are_present()); }).join();
  EXPECT_TRUE(hooks_are_present());
}

TEST(EngineTest, HooksStayUntilTheOutermostRegionCloses) {
  Region outer;
  {
    const Region inner;
    EXPECT_TRUE(hooks_are_present());
  }
  EXPECT_TRUE(hooks_are_present());
  outer.close();
  EXPECT_FALSE(hooks_are_present());
}

TEST(EngineTest, IsInstalledOnce) {
  saved::install_engine();
  auto* first = &torch::autograd::Engine::get_default_engine();
  saved::install_engine();
  EXPECT_EQ(&torch::autograd::Engine::get_default_engine(), first);
}

TEST(EngineTest, BackwardOutsideOfRegionsIsAsEver) {
  saved::install_engine();
  const auto x = leaf();
  const auto y = x.exp();
  y.sum().backward();
  expect_same_bits(x.grad(), y.detach(), "the gradient");
}

TEST(EngineTest, ErrorsInBackwardArriveAsEver) {
  saved::install_engine();
  const auto x = leaf();
  auto y = x.exp();
  const auto loss = y.sum();
  y.detach().zero_();
  EXPECT_THROW(loss.backward(), c10::Error);
}

}  // namespace
}  // namespace remat::testing
