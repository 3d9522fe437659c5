#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "remat/plan/trace.h"

namespace remat::plan::testing {

/// A trace written down operator by operator.
class BuildTrace {
 public:
  /// An operator with one result; returns the result.
  ValueId op(double us, int64_t bytes, std::vector<ValueId> reads = {}) {
    return ops(us, {bytes}, std::move(reads)).front();
  }

  std::vector<ValueId> ops(double us, const std::vector<int64_t>& bytes,
                           std::vector<ValueId> reads = {}) {
    TraceDocument::Op op{
        .name = "op" + std::to_string(document_.ops.size()), .us = us, .reads = std::move(reads)};
    for (const int64_t size : bytes) op.makes.push_back(value(size));
    document_.ops.push_back(op);
    document_.base_us += 3 * us;
    return op.makes;
  }

  /// A value that no operator makes.
  ValueId value(int64_t bytes) {
    document_.bytes.push_back(bytes);
    return static_cast<ValueId>(document_.bytes.size()) - 1;
  }

  void step(OpId op, std::vector<ValueId> reads, int64_t extra = 0) {
    document_.steps.push_back({op, std::move(reads), extra});
  }

  [[nodiscard]] Trace trace() const { return Trace(document_); }
  [[nodiscard]] TraceDocument& document() { return document_; }

 private:
  TraceDocument document_;
};

/// n equal operators in a row, each reading the one before, each result saved.
inline Trace chain(int32_t n, double us = 1, int64_t bytes = 10) {
  BuildTrace build;
  std::vector<ValueId> made;
  for (int32_t i = 0; i < n; ++i) {
    made.push_back(
        build.op(us, bytes, made.empty() ? std::vector<ValueId>{} : std::vector{made.back()}));
  }
  for (int32_t i = n - 1; i >= 0; --i) build.step(i, {made[static_cast<size_t>(i)]});
  return build.trace();
}

/// What is live beside the values, and what the program holds.
inline void add_random_extras(TraceDocument& document, std::mt19937& generator) {
  const auto below = [&](size_t n) { return static_cast<int32_t>(generator() % n); };
  for (auto& op : document.ops) {
    op.extra_bytes = below(40) - 10;
    op.workspace = below(40) - 10;
  }
  for (auto& step : document.steps) step.before_bytes = below(20);
  for (size_t value = 0; value < document.bytes.size(); ++value)
    document.held_until.push_back(below(3) == 0 ? below(document.ops.size()) : kNone);
}

/// A random small step, every other one with extras: operators with one or two results and up to
/// three inputs, some saved.
inline Trace random_trace(uint32_t seed, int32_t ops) {
  std::mt19937 generator(seed);
  const auto below = [&](uint32_t n) { return static_cast<int32_t>(generator() % n); };
  BuildTrace build;
  std::vector<ValueId> made = {build.value(1 + below(20))};
  std::vector<std::vector<ValueId>> results;
  for (int32_t op = 0; op < ops; ++op) {
    std::vector<ValueId> reads;
    for (int32_t i = below(3); i >= 0; --i) {
      const auto near = std::min<uint32_t>(static_cast<uint32_t>(made.size()), 5);
      reads.push_back(made[made.size() - 1 - static_cast<size_t>(below(near))]);
    }
    std::vector<int64_t> bytes(1 + static_cast<size_t>(below(4) == 0), 0);
    for (auto& size : bytes) size = 1 + below(50);
    results.push_back(build.ops(1 + below(9), bytes, reads));
    made.insert(made.end(), results.back().begin(), results.back().end());
  }
  for (int32_t op = ops - 1; op >= 0; --op) {
    std::vector<ValueId> reads;
    if (below(3) != 0) reads.push_back(results[static_cast<size_t>(op)].front());
    if (below(3) == 0)
      reads.push_back(made[static_cast<size_t>(below(static_cast<uint32_t>(made.size())))]);
    if (!reads.empty()) build.step(op, reads, below(3) == 0 ? below(30) : 0);
  }
  if (seed % 2 == 1) add_random_extras(build.document(), generator);
  return build.trace();
}

}  // namespace remat::plan::testing
