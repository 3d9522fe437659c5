// A chain of 64 layers, cut into segments: how many are best for memory?

#include <cstdio>
#include <optional>
#include <vector>

#include <ATen/ATen.h>
#include <remat/remat.h>

namespace {

constexpr int64_t kRows = 2048;
constexpr int64_t kWidth = 16;

std::vector<remat::Layer> chain(size_t depth) {
  at::manual_seed(0);
  std::vector<remat::Layer> layers;
  for (size_t i = 0; i < depth; ++i) {
    const auto weight = at::randn({kWidth, kWidth}) / 4;
    layers.emplace_back([weight](const at::Tensor& x) { return at::tanh(at::mm(x, weight)); });
  }
  return layers;
}

struct Step {
  at::Tensor gradient;
  double peak;  // in activations: tensors of one layer's output
};

Step step(const std::vector<remat::Layer>& layers, std::optional<size_t> segments) {
  at::manual_seed(1);
  const auto x = at::randn({kRows, kWidth}).requires_grad_();
  const auto before = remat::memory::live_bytes();
  remat::memory::reset_peak();
  remat::checkpoint_sequential(layers, x, segments).sum().backward();
  const auto peak = static_cast<double>(remat::memory::peak_bytes() - before);
  return {x.grad(), peak / static_cast<double>(x.nbytes())};
}

}  // namespace

int main() {
  remat::memory::install();
  const auto layers = chain(64);
  const auto best = step(layers, std::nullopt);
  std::printf("segments  peak, in activations\n");
  bool held = true;
  for (const size_t segments : {1, 2, 4, 8, 16, 32, 64}) {
    const auto run = step(layers, segments);
    std::printf("%8zu  %6.1f\n", segments, run.peak);
    held = held && at::equal(run.gradient, best.gradient) && run.peak >= best.peak;
  }
  std::printf("default   %6.1f    ceil(sqrt(64)) segments; every gradient is the same\n",
              best.peak);
  return held ? 0 : 1;
}
