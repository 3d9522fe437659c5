#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <benchmark/benchmark.h>

#include "remat/remat.h"

namespace {

struct Layer {
  at::Tensor weight = at::randn({8, 8}).requires_grad_();
  at::Tensor bias = at::randn({8}).requires_grad_();

  at::Tensor operator()(const at::Tensor& x) const { return at::linear(x, weight, bias).relu(); }
};

template <typename Apply>
void train(benchmark::State& state, int depth, Apply apply) {
  const std::vector<Layer> layers(depth);
  const auto x = at::randn({4, 8}).requires_grad_();
  for ([[maybe_unused]] auto _ : state) {
    auto y = x;
    for (const auto& layer : layers) {
      y = apply(layer, y);
    }
    y.sum().backward();
  }
}

at::Tensor plain(const Layer& layer, const at::Tensor& x) { return layer(x); }

at::Tensor checkpoint(const Layer& layer, const at::Tensor& x) {
  return remat::checkpoint(layer, x);
}

BENCHMARK_CAPTURE(train, plain, 1, plain)->Name("region/plain");
BENCHMARK_CAPTURE(train, checkpoint, 1, checkpoint)->Name("region/checkpoint");
BENCHMARK_CAPTURE(train, plain, 12, plain)->Name("layers/plain");
BENCHMARK_CAPTURE(train, checkpoint, 12, checkpoint)->Name("layers/checkpoint");

}  // namespace
