// Trains a small network with and without remat: the same losses, in less memory.

#include <cstdio>
#include <vector>

#include <remat/remat.h>
#include <torch/torch.h>

namespace {

struct Run {
  std::vector<double> losses;
  size_t peak;  // bytes above what lives between steps
};

Run train(bool recompute) {
  torch::manual_seed(0);
  std::vector<torch::nn::Sequential> blocks;
  std::vector<at::Tensor> parameters;
  for (int i = 0; i < 12; ++i) {
    blocks.emplace_back(torch::nn::Linear(64, 256), torch::nn::GELU(), torch::nn::Linear(256, 64),
                        torch::nn::Dropout(0.1));
    for (const auto& parameter : blocks.back()->parameters()) parameters.push_back(parameter);
  }
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(1e-3));
  const auto input = torch::randn({512, 64});
  const auto target = input.sin();

  Run run{{}, 0};
  for (int step = 0; step < 5; ++step) {
    const auto before = remat::memory::live_bytes();
    remat::memory::reset_peak();
    auto h = input;
    for (auto& block : blocks) {
      const auto layer = [&](const at::Tensor& x) { return x + block->forward(x); };
      h = recompute ? remat::checkpoint(layer, h) : layer(h);
    }
    const auto loss = torch::mse_loss(h, target);
    loss.backward();
    run.peak = remat::memory::peak_bytes() - before;  // of the last step: gradients exist by then
    optimizer.step();
    optimizer.zero_grad(/*set_to_none=*/false);
    run.losses.push_back(loss.item<double>());
  }
  return run;
}

void print(const char* name, const Run& run) {
  std::printf("%-6s  peak %6.1f MiB  losses", name, static_cast<double>(run.peak) / (1 << 20));
  for (const double loss : run.losses) std::printf(" %.9g", loss);
  std::printf("\n");
}

}  // namespace

int main() {
  remat::memory::install();
  const auto plain = train(false);
  const auto remat = train(true);
  print("plain", plain);
  print("remat", remat);
  return remat.losses == plain.losses && remat.peak < plain.peak / 2 ? 0 : 1;
}
