#include "finetune/optimizer.h"

#include <charconv>
#include <tuple>

#include <ATen/ATen.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include "finetune/error.h"
#include "models/safetensors.h"

namespace remat::finetune {

namespace fs = std::filesystem;
using torch::optim::AdamWOptions;
using torch::optim::AdamWParamState;
using torch::optim::OptimizerParamGroup;

namespace {

constexpr const char* kAverage = "exp_avg.";
constexpr const char* kSquare = "exp_avg_sq.";

std::vector<at::Tensor> tensors(const NamedTensors& named) {
  std::vector<at::Tensor> all;
  for (const auto& [name, tensor] : named) all.push_back(tensor);
  return all;
}

OptimizerParamGroup group(std::vector<at::Tensor> tensors, const OptimizerConfig& config,
                          double weight_decay) {
  auto options = std::make_unique<AdamWOptions>();
  options->betas(std::make_tuple(config.beta1, config.beta2));
  options->eps(config.epsilon).weight_decay(weight_decay);
  return {std::move(tensors), std::move(options)};
}

/// Matrices decay; vectors (norms, biases) do not.
std::vector<OptimizerParamGroup> groups(const NamedTensors& parameters,
                                        const OptimizerConfig& config) {
  std::vector<at::Tensor> matrices;
  std::vector<at::Tensor> vectors;
  for (const auto& tensor : tensors(parameters)) {
    (tensor.dim() > 1 ? matrices : vectors).push_back(tensor);
  }
  std::vector<OptimizerParamGroup> made;
  if (!matrices.empty()) made.push_back(group(std::move(matrices), config, config.weight_decay));
  if (!vectors.empty()) made.push_back(group(std::move(vectors), config, 0));
  return made;
}

/// The number of steps in the metadata; 0 if there is none.
int64_t steps_of(const models::safetensors::Metadata& metadata) {
  int64_t steps = 0;
  if (const auto found = metadata.find("steps"); found != metadata.end()) {
    const auto& text = found->second;
    std::from_chars(text.data(), text.data() + text.size(), steps);
  }
  return steps;
}

}  // namespace

struct Optimizer::Adam : torch::optim::AdamW {
  using AdamW::AdamW;

  const AdamWParamState& state_of(const at::Tensor& parameter) const {
    return static_cast<const AdamWParamState&>(*state().at(parameter.unsafeGetTensorImpl()));
  }

  void set_state(const at::Tensor& parameter, int64_t steps, at::Tensor average,
                 at::Tensor square) {
    auto fresh = std::make_unique<AdamWParamState>();
    fresh->step(steps).exp_avg(std::move(average)).exp_avg_sq(std::move(square));
    state()[parameter.unsafeGetTensorImpl()] = std::move(fresh);
  }
};

Optimizer::Optimizer(NamedTensors parameters, const OptimizerConfig& config)
    : parameters_(std::move(parameters)),
      adam_(std::make_unique<Adam>(groups(parameters_, config))) {
  for (const auto& [name, parameter] : parameters_) {
    adam_->set_state(parameter, 0, at::zeros_like(parameter), at::zeros_like(parameter));
  }
}
Optimizer::~Optimizer() = default;
Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;

double Optimizer::clip(double most) {
  const double bound = most > 0 ? most : std::numeric_limits<double>::infinity();
  return torch::nn::utils::clip_grad_norm_(tensors(parameters_), bound);
}

void Optimizer::step(double learning_rate) {
  for (auto& group : adam_->param_groups()) group.options().set_lr(learning_rate);
  adam_->step();
  // Dropped, not zeroed: during the next forward pass their memory is the activations'.
  adam_->zero_grad(/*set_to_none=*/true);
}

void Optimizer::save(const fs::path& path) const {
  models::safetensors::NamedTensors all;
  int64_t steps = 0;
  for (const auto& [name, parameter] : parameters_) {
    const auto& state = adam_->state_of(parameter);
    steps = state.step();
    all.emplace_back(kAverage + name, state.exp_avg());
    all.emplace_back(kSquare + name, state.exp_avg_sq());
  }
  models::safetensors::write(path, all, {{"steps", std::to_string(steps)}});
}

void Optimizer::load(const fs::path& path) {
  const models::safetensors::File file(path);
  const int64_t steps = steps_of(file.metadata());
  for (const auto& [name, parameter] : parameters_) {
    auto average = at::empty_like(parameter, at::MemoryFormat::Contiguous);
    auto square = at::empty_like(average);
    for (auto& [prefix, target] : {std::tie(kAverage, average), std::tie(kSquare, square)}) {
      const auto* entry = file.find(prefix + name);
      if (entry == nullptr || at::IntArrayRef(entry->shape) != parameter.sizes()) {
        throw Error(Fault::model, path.string() + ": no state that fits the trained weight \"" +
                                      name + "\"; resume with the settings it was saved with");
      }
      file.read_into(prefix + name, target);
    }
    adam_->set_state(parameter, steps, std::move(average), std::move(square));
  }
}

}  // namespace remat::finetune
