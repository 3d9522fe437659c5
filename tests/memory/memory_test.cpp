#include "remat/memory/memory.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/rand.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

namespace remat::memory {
namespace {

class MemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    install();
    reset_peak();
    before_ = static_cast<std::int64_t>(live_bytes());
  }

  // Bytes since the test began.
  [[nodiscard]] std::int64_t live() const {
    return static_cast<std::int64_t>(live_bytes()) - before_;
  }
  [[nodiscard]] std::int64_t peak() const {
    return static_cast<std::int64_t>(peak_bytes()) - before_;
  }

 private:
  std::int64_t before_ = 0;
};

TEST_F(MemoryTest, LiveRisesAndFallsByTheBytesAskedFor) {
  auto floats = at::empty({7, 3});
  EXPECT_EQ(live(), 84);
  auto bytes = at::empty({5}, at::kByte);
  EXPECT_EQ(live(), 89);
  floats.reset();
  EXPECT_EQ(live(), 5);
  bytes.reset();
  EXPECT_EQ(live(), 0);
}

TEST_F(MemoryTest, ViewsCostNothingAndKeepTheirStorage) {
  auto view = at::empty({100}).narrow(0, 10, 5);
  EXPECT_EQ(live(), 400);
}

TEST_F(MemoryTest, PeakOutlivesTheTensors) {
  { auto large = at::empty({1000}); }
  auto small = at::empty({10});
  EXPECT_EQ(peak(), 4000);
  reset_peak();
  EXPECT_EQ(peak(), 40);
}

TEST_F(MemoryTest, ZeroBytesAreNeitherCountedNorReleased) {
  auto nothing = at::empty({0});
  EXPECT_EQ(live(), 0);
  nothing.resize_({4});
  EXPECT_EQ(live(), 16);
}

TEST_F(MemoryTest, ResizingAStorageCountsOldAndNewOnlyWhileItCopies) {
  auto tensor = at::empty({10});
  tensor.resize_({100});
  EXPECT_EQ(live(), 400);
  EXPECT_EQ(peak(), 440);
}

TEST_F(MemoryTest, MemoryFromBeforeIsReleasedUncounted) {
  auto from_before = c10::GetDefaultCPUAllocator()->allocate(100);
  EXPECT_EQ(live(), 0);
  from_before.clear();
  EXPECT_EQ(live(), 0);
}

TEST_F(MemoryTest, ContextIsTheDataSoThatRawAllocationWorks) {
  auto* allocator = c10::GetCPUAllocator();
  auto data = allocator->allocate(100);
  EXPECT_EQ(data.get(), data.get_context());
  void* raw = allocator->raw_allocate(50);
  EXPECT_EQ(live(), 150);
  allocator->raw_deallocate(raw);
  EXPECT_EQ(live(), 100);
}

TEST_F(MemoryTest, CloneCopiesTheBytes) {
  auto* allocator = c10::GetCPUAllocator();
  const std::array<int, 3> values = {4, 5, 6};
  auto copy = allocator->clone(values.data(), sizeof values);
  EXPECT_EQ(static_cast<const int*>(copy.get())[2], 6);
  EXPECT_EQ(live(), 12);
}

TEST_F(MemoryTest, AFailedAllocationIsNotCounted) {
  EXPECT_THROW(c10::GetCPUAllocator()->allocate(SIZE_MAX), c10::Error);
  EXPECT_EQ(live(), 0);
}

TEST_F(MemoryTest, AFreedBlockServesTheNextTensorOfItsSize) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep freed blocks back";
#endif
  auto tensor = at::empty({20'000});
  const auto wall = at::empty({20'000});  // else the block would join the free memory behind it
  const void* block = tensor.data_ptr();
  tensor.reset();
  EXPECT_EQ(at::empty({20'000}).data_ptr(), block);
}

TEST_F(MemoryTest, TensorsAreAlignedAsThoseOfTorch) {
  for (int64_t bytes = 1; bytes < 300; ++bytes) {
    const auto address = reinterpret_cast<uintptr_t>(at::empty({bytes}, at::kByte).data_ptr());
    ASSERT_EQ(address % 64, 0) << bytes;
  }
}

TEST_F(MemoryTest, InstallTwiceCountsOnce) {
  auto* first = c10::GetCPUAllocator();
  install();
  EXPECT_EQ(c10::GetCPUAllocator(), first);
  EXPECT_TRUE(is_installed());
  auto tensor = at::empty({1});
  EXPECT_EQ(live(), 4);
}

TEST_F(MemoryTest, OnlyAllocatorsOwnTheirMemory) {
  const auto is_owned = [](const at::Tensor& tensor) {
    return is_allocator_deleter(tensor.storage().data_ptr().get_deleter());
  };
  std::array<float, 4> foreign = {};
  EXPECT_TRUE(is_owned(at::empty({4})));
  EXPECT_FALSE(is_owned(at::from_blob(foreign.data(), {4})));
  EXPECT_FALSE(is_owned(at::from_blob(foreign.data(), {4}, [](void*) {})));
  const auto uncounted = c10::GetDefaultCPUAllocator()->allocate(4);
  EXPECT_TRUE(is_allocator_deleter(uncounted.get_deleter()));
}

TEST_F(MemoryTest, OneDnnConvolutionWorks) {
  const auto image = at::rand({2, 16, 12, 12});
  const auto kernel = at::rand({32, 16, 3, 3});
  const auto with_onednn = at::conv2d(image, kernel);
  at::globalContext().setUserEnabledMkldnn(false);
  const auto without = at::conv2d(image, kernel);
  at::globalContext().setUserEnabledMkldnn(true);
  EXPECT_TRUE(at::allclose(with_onednn, without, 1e-4, 1e-4));
}

TEST_F(MemoryTest, TensorsMayDieOnAnotherThread) {
  std::vector<at::Tensor> tensors(2000);
  std::thread([&] {
    for (auto& tensor : tensors) {
      tensor = at::empty({25});
    }
  }).join();
  EXPECT_EQ(live(), 200000);
  tensors.clear();
  EXPECT_EQ(live(), 0);
  EXPECT_EQ(peak(), 200000);
}

TEST(MemoryDeathTest, StaticTensorsDieDuringShutdown) {
  EXPECT_EXIT(
      {
        install();
        static auto tensor = at::empty({10});
        std::exit(tensor.numel() == 10 ? 0 : 1);  // NOLINT(concurrency-mt-unsafe)
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace remat::memory
