// Random programs: whatever plain training does without an error, a region does with the same bits.

#include "tests/support/random_program.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "remat/remat.h"
#include "tests/support/compare.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace remat::testing {
namespace {

/// Plain training leaks a graph whose backward raises: a tensor that it saved and then wrote leads
/// back to who saved it.
#ifdef __SANITIZE_ADDRESS__
using LeaksAllowed = __lsan::ScopedDisabler;
#else
struct LeaksAllowed {};
#endif

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? otherwise : std::stoull(text);
}

RegionOptions options_of(uint64_t seed) {
  RegionOptions options{.segments = seed % 3};
  if (seed % 5 == 0) options.policy = policy::keep_ops({"mul", "tanh", "sigmoid_", "cat"});
  return options;
}

/// Runs program after program until one differs. RANDOM_PROGRAMS=100000 FIRST_PROGRAM=1000 searches
/// further.
void compare_programs(
    int64_t size, uint64_t count,
    const std::function<void(uint64_t, const RandomProgram&, const Tensors&)>& between) {
  const uint64_t first = from_environment("FIRST_PROGRAM", 0);
  count = from_environment("RANDOM_PROGRAMS", count);
  const Tensors inputs = {leaf({size, size}), leaf({size, size}, 2), constant({size, size}, 3)};
  uint64_t compared = 0;
  for (uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) {
    RandomProgram program(seed);
    [[maybe_unused]] const LeaksAllowed of_plain;
    try {
      expect_same_as_plain([&](const Tensors& in) { return program(in); }, inputs,
                           [&](const Tensors& in) { between(seed, program, in); },
                           options_of(seed));
      ++compared;
    } catch (const c10::Error&) {
      continue;  // plain raises: it changed what it still needs
    }
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "program " << seed << "\n" << program.trace();
    }
  }
  EXPECT_TRUE(::testing::Test::HasFailure() || compared > count / 10);
}

/// Changes what is still alive of the results, where nothing has to keep it as it was.
void overwrite_survivors(uint64_t seed, const RandomProgram& program, const Tensors& inputs) {
  if (seed % 3 != 0 || seed % 5 == 0) return;
  for (const at::Tensor& survivor : program.survivors()) {
    const auto shares = [&](const at::Tensor& input) { return input.is_alias_of(survivor); };
    if (std::none_of(inputs.begin(), inputs.end(), shares)) survivor.zero_();
  }
}

TEST(RandomProgramTest, HaveTheGradientsOfPlain) {
  compare_programs(4, 400, [](uint64_t seed, const RandomProgram& program, const Tensors& in) {
    if (seed % 2 == 0) in[2].detach().zero_();
    overwrite_survivors(seed, program, in);
  });
}

/// Of tensors above the size up to which what a region was given is copied, and so must not change
/// afterwards.
TEST(RandomProgramTest, OfLargeTensorsToo) {
  compare_programs(136, 50, [](uint64_t, const RandomProgram&, const Tensors&) {});
}

}  // namespace
}  // namespace remat::testing
