// What remat costs in a C++ process. Choose workloads with --benchmark_filter=<regex>:
//
//   region/plain, region/checkpoint     relu(Linear(8, 8)) on 4 x 8 floats, forward and backward
//   layers/plain, layers/checkpoint     twelve of those in a row, each a region of its own
//   op_<name>/plain, op_<name>/region   one operator without a graph, by itself and in an open
//   region:
//                                       mul, view, linear, layer_norm, sum, bernoulli
//   guard/<layout>                      the hash of the spot guard: small, large, transposed
//
// Compare only figures of one run: repetitions of all workloads are interleaved at random.

#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

int main(int argc, char** argv) {
  std::vector<std::string> arguments = {
      argv[0], "--benchmark_enable_random_interleaving=true", "--benchmark_repetitions=15",
      "--benchmark_display_aggregates_only=true", "--benchmark_min_time=0.05"};
  arguments.insert(arguments.end(), argv + 1, argv + argc);  // the last of a flag wins
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (auto& argument : arguments) {
    pointers.push_back(argument.data());
  }
  int count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);

  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) {
    return 1;
  }
  at::set_num_threads(1);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
