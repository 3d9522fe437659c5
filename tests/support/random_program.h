#pragma once

#include <cstdint>
#include <random>
#include <sstream>
#include <string>

#include "tests/support/compare.h"

namespace remat::testing {

/// A training step made of random operators: views, writes in place and through views, random
/// numbers, nested regions, tensors that die early, writes to what it was given. The same seed is
/// always the same program.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : seed_(seed), random_(seed) {}

  /// Runs on two leaves and a constant, square and of one size.
  at::Tensor operator()(const Tensors& inputs);
  /// Some results that are still alive afterwards, without their graph.
  [[nodiscard]] const Tensors& survivors() const { return survivors_; }
  /// What it did last, a line an operator: "#3 #0 mul -> #4" by places in its pool.
  [[nodiscard]] std::string trace() const { return trace_.str(); }

 private:
  void run_steps(int count, int depth);
  void step(int depth);
  void make();
  void write();
  void write_part();
  void drop();
  void run_region(int depth);
  void push(const char* name, at::Tensor tensor);

  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
  at::Tensor any();
  /// One that may be written: no leaf.
  at::Tensor any_writable();

  uint64_t seed_;
  std::mt19937_64 random_;
  int64_t size_ = 0;
  Tensors pool_;
  Tensors survivors_;
  std::ostringstream trace_;
};

}  // namespace remat::testing
