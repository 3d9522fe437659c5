#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>
#include <benchmark/benchmark.h>

#include "remat/record/spot.h"

namespace {

// Paid at pack and again at unpack of every tensor that is recomputed.
void hash(benchmark::State& state, const at::Tensor& tensor) {
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(remat::record::spot_hash(tensor));
  }
}

BENCHMARK_CAPTURE(hash, small, at::randn({4, 8}))->Name("guard/small");
BENCHMARK_CAPTURE(hash, large, at::randn({512, 576}))->Name("guard/large");
BENCHMARK_CAPTURE(hash, transposed, at::randn({512, 576}).t())->Name("guard/transposed");

}  // namespace
