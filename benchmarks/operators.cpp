#include <functional>
#include <map>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <benchmark/benchmark.h>
#include <c10/core/GradMode.h>

#include "remat/remat.h"

namespace {

struct Operands {
  at::Tensor x = at::rand({4, 8});
  at::Tensor weight = at::rand({8, 8});
  at::Tensor bias = at::rand({8});
};

using Operator = std::function<at::Tensor(const Operands&)>;

const std::map<std::string, Operator> kOperators = {
    {"mul", [](const Operands& o) { return o.x.mul(o.x); }},
    {"view",
     [](const Operands& o) {
       return o.x.view({8, 4});
     }},
    {"linear", [](const Operands& o) { return at::linear(o.x, o.weight, o.bias); }},
    {"layer_norm", [](const Operands& o) { return at::layer_norm(o.x, {8}, o.bias, o.bias); }},
    {"sum", [](const Operands& o) { return o.x.sum(); }},
    {"bernoulli", [](const Operands& o) { return at::bernoulli(o.x); }},
};

// Without a graph, so that autograd's own cost stands in neither figure and nothing is packed.
void call(benchmark::State& state, const Operator& op, bool in_region) {
  constexpr int calls_per_region = 256;  // opening and closing it then counts for little
  const Operands operands;
  while (state.KeepRunningBatch(calls_per_region)) {
    std::optional<remat::Region> region;
    if (in_region) {
      region.emplace();  // before the guard: a region that opens without grad mode records nothing
    }
    const at::NoGradGuard no_grad;
    for (int i = 0; i < calls_per_region; ++i) {
      benchmark::DoNotOptimize(op(operands));
    }
  }
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const auto& [name, op] : kOperators) {
    benchmark::RegisterBenchmark(("op_" + name + "/plain").c_str(), call, op, false);
    benchmark::RegisterBenchmark(("op_" + name + "/region").c_str(), call, op, true);
  }
  return true;
}();

}  // namespace
