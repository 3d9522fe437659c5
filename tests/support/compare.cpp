#include "tests/support/compare.h"

#include <cstring>
#include <sstream>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "remat/record/balance.h"

namespace remat::testing {

namespace {

/// Everything that a training step leaves behind.
struct Outcome {
  at::Tensor result;
  Tensors inputs;
  at::Tensor generator;
};

Tensors copies_of(const Tensors& inputs) {
  Tensors copies;
  for (const at::Tensor& input : inputs) {
    copies.push_back(input.detach().clone().set_requires_grad(input.requires_grad()));
  }
  return copies;
}

/// A scalar to differentiate, of which every element of the result has a share of its own, so that
/// no two paths of a graph are mistaken for each other. Holds nothing of the result: a live one
/// would not have to be recomputed.
at::Tensor loss_of(const at::Tensor& result) {
  const auto weights = at::linspace(0.5, 1.5, result.numel()).view(result.sizes());
  return (result * weights.to(result.scalar_type())).sum();
}

template <typename Run>
Outcome train(const Run& run, const Tensors& inputs, const Between& between) {
  at::manual_seed(7);
  Outcome outcome;
  outcome.inputs = copies_of(inputs);
  at::Tensor result = run(outcome.inputs);
  outcome.result = result.detach().clone();
  const auto loss = loss_of(result);
  result.reset();
  between(outcome.inputs);
  loss.backward();
  outcome.generator = at::globalContext().defaultGenerator(c10::kCPU).get_state();
  return outcome;
}

/// Tensors of tests are small, and replays are what is tested.
class AlwaysRecompute {
 public:
  AlwaysRecompute() { record::set_always_recompute(true); }
  ~AlwaysRecompute() { record::set_always_recompute(false); }
  AlwaysRecompute(const AlwaysRecompute&) = delete;
  AlwaysRecompute& operator=(const AlwaysRecompute&) = delete;
};

at::Tensor in_region(const Forward& forward, const Tensors& inputs, const RegionOptions& options) {
  const AlwaysRecompute always;
  Region region(options);
  auto result = forward(inputs);
  region.close();
  return result;
}

void expect_same(const Outcome& actual, const Outcome& plain) {
  expect_same_bits(actual.result, plain.result, "the result");
  expect_same_bits(actual.generator, plain.generator, "the default generator");
  for (size_t i = 0; i < plain.inputs.size(); ++i) {
    const std::string input = "input " + std::to_string(i);
    expect_same_bits(actual.inputs[i], plain.inputs[i], input);
    if (!plain.inputs[i].is_leaf()) continue;  // written in place: it is a result now
    expect_same_bits(actual.inputs[i].grad(), plain.inputs[i].grad(), "the gradient of " + input);
  }
}

}  // namespace

at::Tensor constant(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed));
}

at::Tensor leaf(at::IntArrayRef sizes, uint64_t seed) {
  return constant(sizes, seed).set_requires_grad(true);
}

void expect_same_bits(const at::Tensor& actual, const at::Tensor& expected,
                      const std::string& what) {
  ASSERT_EQ(actual.defined(), expected.defined()) << what;
  if (!expected.defined()) return;
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << what;
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  const auto a = actual.detach().contiguous();
  const auto b = expected.detach().contiguous();
  EXPECT_EQ(std::memcmp(a.const_data_ptr(), b.const_data_ptr(), b.nbytes()), 0)
      << what << " is\n"
      << actual << "\nand plainly\n"
      << expected;
}

Stats expect_same_as_plain(const Forward& forward, const Tensors& inputs, const Between& between,
                           const RegionOptions& options) {
  const auto plain = train(forward, inputs, between);
  reset_stats();
  const auto run = [&](const Tensors& copies) { return in_region(forward, copies, options); };
  try {
    expect_same(train(run, inputs, between), plain);
  } catch (const c10::Error& error) {
    ADD_FAILURE() << "plain runs, remat raises " << error.what_without_backtrace();
  }
  return stats();
}

Stats expect_replayed_as_plain(const Forward& forward, const Tensors& inputs,
                               const Between& between, const RegionOptions& options) {
  auto stats = expect_same_as_plain(forward, inputs, between, options);
  EXPECT_GT(stats.ops_replayed, 0);
  return stats;
}

std::string error_in_backward(const Forward& forward, const Tensors& inputs,
                              const Between& between) {
  const auto copies = copies_of(inputs);
  const auto loss = loss_of(in_region(forward, copies, {}));
  between(copies);
  try {
    loss.backward();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

std::string saved_by(const std::function<void()>& body, const RegionOptions& options) {
  const AlwaysRecompute always;
  reset_stats();
  {
    Region region(options);
    body();
  }
  const auto now = stats();
  std::ostringstream text;
  if (now.bytes_dropped != 0) text << "recomputed " << now.bytes_dropped;
  for (const auto& [reason, bytes] : now.kept_by_reason) {
    if (bytes != 0) text << (text.tellp() > 0 ? ", " : "") << reason << " " << bytes;
  }
  return text.str();
}

std::string recorded(const std::function<void()>& body) {
  const Region region;
  body();
  return ops_of(region.tape());
}

std::string ops_of(const tape::Tape& tape) {
  std::string text;
  for (tape::NodeId id = 0; id < tape.nodes(); ++id) {
    if (id != 0) text += ' ';
    text += tape.node(id).call->op;
  }
  return text;
}

}  // namespace remat::testing
