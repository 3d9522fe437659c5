#include "remat/memory/ledger.h"

#include <array>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace remat::memory {
namespace {

class LedgerTest : public ::testing::Test {
 protected:
  void enter(int slot, std::size_t bytes) { ledger_.enter(&slots_[slot], bytes); }
  void strike(int slot) { ledger_.strike(&slots_[slot]); }

  static constexpr int slot_count = 4096;

  Ledger ledger_;
  std::array<std::array<char, 64>, slot_count> slots_{};  // addresses to enter
};

TEST_F(LedgerTest, LiveIsWhatWasEnteredAndNotStruck) {
  enter(0, 100);
  enter(1, 20);
  EXPECT_EQ(ledger_.live_bytes(), 120U);
  strike(0);
  EXPECT_EQ(ledger_.live_bytes(), 20U);
  strike(1);
  EXPECT_EQ(ledger_.live_bytes(), 0U);
}

TEST_F(LedgerTest, StrikingAnUnknownAddressChangesNothing) {
  enter(0, 100);
  strike(1);
  EXPECT_EQ(ledger_.live_bytes(), 100U);
}

TEST_F(LedgerTest, AnAddressCanBeEnteredAgainWithAnotherSize) {
  enter(0, 100);
  strike(0);
  enter(0, 7);
  EXPECT_EQ(ledger_.live_bytes(), 7U);
}

TEST_F(LedgerTest, PeakIsTheMostAliveAtOnce) {
  enter(0, 100);
  strike(0);
  enter(1, 60);
  EXPECT_EQ(ledger_.peak_bytes(), 100U);
}

TEST_F(LedgerTest, ResetMakesTheBytesAliveThePeak) {
  enter(0, 100);
  enter(1, 60);
  strike(0);
  ledger_.reset_peak();
  EXPECT_EQ(ledger_.peak_bytes(), 60U);
  enter(2, 1);
  EXPECT_EQ(ledger_.peak_bytes(), 61U);
}

TEST_F(LedgerTest, ThreadsLoseNothing) {
  constexpr int thread_count = 4;
  const auto enter_every_fourth_and_strike_the_odd = [this](int first) {
    for (int slot = first; slot < slot_count; slot += thread_count) {
      enter(slot, 10);
      if (slot % 2 == 1) {
        strike(slot);
      }
    }
  };
  std::array<std::thread, thread_count> threads;
  for (int t = 0; t < thread_count; ++t) {
    threads[t] = std::thread(enter_every_fourth_and_strike_the_odd, t);
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(ledger_.live_bytes(), slot_count / 2 * 10U);
  EXPECT_GE(ledger_.peak_bytes(), ledger_.live_bytes());
}

// A lock that another thread holds at the moment of fork() would stay locked in the child, where a
// data loader's worker then waits for ever on its first tensor.
TEST_F(LedgerTest, AForkedChildFindsNoLockTaken) {
  auto* address = slots_.data();
  ledger();
  const std::jthread busy([address](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      ledger().enter(address, 1);
      ledger().strike(address);
    }
  });
  for (int i = 0; i < 50; ++i) {
    const auto child = fork();
    if (child == 0) {
      alarm(5);  // a deadlock ends in a signal
      ledger().strike(address);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0) << "fork " << i;
  }
}

}  // namespace
}  // namespace remat::memory
