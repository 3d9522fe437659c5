#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace remat::finetune {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct OptimizerConfig {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

/// libtorch's AdamW (Loshchilov and Hutter 2017, arXiv 1711.05101), a tensor at a time, with its
/// state in safetensors. As in transformers, norms and biases do not decay. The state is there from
/// the start, as zeros: what fits a memory budget in the first step then fits it in the second.
class Optimizer {
 public:
  Optimizer(NamedTensors parameters, const OptimizerConfig& config);
  ~Optimizer();
  Optimizer(Optimizer&&) noexcept;
  Optimizer& operator=(Optimizer&&) noexcept;

  /// Scales all gradients so that their norm together is at most `most`, and returns the norm
  /// before. `most` of 0 measures only.
  double clip(double most);
  /// Updates the parameters, and drops their gradients.
  void step(double learning_rate);

  /// Writes and reads one file: exp_avg.NAME and exp_avg_sq.NAME of every parameter, and
  /// the number of steps. load() throws Error{model} where the file is not of these
  /// parameters.
  void save(const std::filesystem::path& path) const;
  void load(const std::filesystem::path& path);

  [[nodiscard]] const NamedTensors& parameters() const { return parameters_; }

 private:
  struct Adam;
  NamedTensors parameters_;
  std::unique_ptr<Adam> adam_;
};

}  // namespace remat::finetune
