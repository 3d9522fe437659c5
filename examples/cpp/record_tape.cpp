// Records a small network and prints its tape: as text, and as a graph for Graphviz.
//
//     record_tape             both
//     record_tape --dot       the graph alone, for `dot -Tsvg`

#include <cstdio>
#include <string>

#include <ATen/ATen.h>
#include <remat/remat.h>

namespace {

struct Network {
  at::Tensor weight = at::randn({8, 8}).requires_grad_();
  at::Tensor bias = at::randn({8}).requires_grad_();

  at::Tensor loss(const at::Tensor& x) const {
    auto h = at::linear(x, weight, bias);
    h.relu_();                                 // in place: a second value of the same buffer
    h = at::dropout(h, 0.5, true);             // random: the generator's state is recorded
    return at::tanh(h.transpose(0, 1)).sum();  // a view is geometry, not an operator of the tape
  }
};

at::Tensor gradient(const at::Tensor& loss, const Network& network) {
  network.weight.mutable_grad().reset();
  loss.backward();
  return network.weight.grad();
}

}  // namespace

int main(int argc, char** argv) {
  at::manual_seed(0);
  const Network network;
  const auto x = at::randn({4, 8});

  at::manual_seed(1);
  remat::Region region;
  const auto loss = network.loss(x);
  const auto recorded = to_text(region.tape());
  region.close();

  const auto dot = to_dot(region.tape());
  if (argc > 1 && argv[1] == std::string("--dot")) {
    std::printf("%s", dot.c_str());
    return 0;
  }
  std::printf("What ran:\n\n%s\n", recorded.c_str());
  std::printf("What backward may need of it:\n\n%s\n", to_text(region.tape()).c_str());
  std::printf("The same as a graph:\n\n%s\n", dot.c_str());

  const auto recomputed = gradient(loss, network);
  at::manual_seed(1);
  const bool equal = at::equal(recomputed, gradient(network.loss(x), network));
  std::printf("Operators replayed: %ld. Gradient equal to plain training's: %s.\n",
              remat::stats().ops_replayed, equal ? "yes" : "NO");
  return equal ? 0 : 1;
}
