#include "finetune/lora.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include "finetune/error.h"

namespace remat::finetune {

namespace {

bool ends_at_dot(const std::string& name, const std::string& target) {
  return name == target || name.ends_with("." + target);
}

bool is_all_linear(const LoraConfig& config) {
  return config.targets.size() == 1 && config.targets[0] == "all-linear";
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

/// Throws if one of the targets is no module: a typing error would leave a layer untrained.
void check_targets(const LoraConfig& config, models::Decoder& decoder) {
  std::set<std::string> names;
  for (const auto& [name, linear] : decoder.named_linears()) names.insert(last_part(name));
  const auto known = [&](const std::string& target) {
    return std::ranges::any_of(decoder.named_linears(),
                               [&](const auto& named) { return ends_at_dot(named.first, target); });
  };
  for (const auto& target : config.targets) {
    if (known(target)) continue;
    std::string all = "all-linear";
    for (const auto& name : names) all += ", " + name;
    throw Error(Fault::usage, "no linear layer is called '" + target +
                                  "' (--lora-target-modules); there is " + all);
  }
}

void check(const LoraConfig& config) {
  if (config.r < 1) throw Error(Fault::usage, "--lora-r must be at least 1");
  if (config.dropout < 0 || config.dropout >= 1)
    throw Error(Fault::usage, "--lora-dropout must be at least 0 and below 1");
}

Lora::Module fresh(const std::string& name, const models::Linear& linear, int64_t r) {
  const auto options = linear.weight.options().dtype(at::kFloat).requires_grad(false);
  // Kaiming's bound at a slope of sqrt(5) is 1 / sqrt(in): what nn.Linear starts with.
  const double bound = 1 / std::sqrt(static_cast<double>(linear.in_features()));
  return {name, at::empty({r, linear.in_features()}, options).uniform_(-bound, bound),
          at::zeros({linear.out_features(), r}, options)};
}

at::Tensor adapt(const LoraConfig& config, const Lora::Module& module, const at::Tensor& input,
                 const at::Tensor& output) {
  const bool autocast = at::autocast::is_autocast_enabled(at::kCPU);
  // Under autocast the products cast for themselves; a float32 copy first would only be saved.
  auto x = autocast ? input : input.to(module.a.scalar_type());
  // Dropout belongs to training, and an evaluation has no gradients.
  if (config.dropout > 0 && at::GradMode::is_enabled()) x = at::dropout(x, config.dropout, true);
  const auto delta = at::linear(at::linear(x, module.a), module.b);
  return output.add_(delta, config.scale());
}

}  // namespace

double LoraConfig::scale() const {
  const auto rank = static_cast<double>(r);
  return alpha / (rslora ? std::sqrt(rank) : rank);
}

Lora::Lora(models::Decoder& decoder, LoraConfig config) : config_(std::move(config)) {
  check(config_);
  if (!is_all_linear(config_)) check_targets(config_, decoder);
  for (const auto& [name, parameter] : decoder.named_parameters()) parameter.requires_grad_(false);
  for (const auto& [name, linear] : decoder.named_linears()) {
    const auto targeted = [&](const std::string& target) { return ends_at_dot(name, target); };
    if (is_all_linear(config_) || std::ranges::any_of(config_.targets, targeted)) {
      attach(*linear, fresh(name, *linear, config_.r));
    }
  }
}

Lora::Lora(models::Decoder& decoder, LoraConfig config, std::vector<Module> modules)
    : config_(std::move(config)) {
  check(config_);
  for (const auto& [name, parameter] : decoder.named_parameters()) parameter.requires_grad_(false);
  for (const auto& [name, linear] : decoder.named_linears()) {
    const auto found = std::ranges::find(modules, name, &Module::name);
    if (found == modules.end()) continue;
    attach(*linear, std::move(*found));
    modules.erase(found);
  }
  if (!modules.empty()) {
    throw Error(Fault::model, "the adapter has weights for '" + modules.front().name +
                                  "', which the model lacks: it was made for another model");
  }
}

void Lora::attach(models::Linear& linear, Module module) {
  const bool fits = module.a.dim() == 2 && module.b.dim() == 2 &&
                    module.a.sizes() == at::IntArrayRef{config_.r, linear.in_features()} &&
                    module.b.sizes() == at::IntArrayRef{linear.out_features(), config_.r};
  if (!fits) {
    throw Error(Fault::model, "the adapter's weights for '" + module.name +
                                  "' have other shapes than r and the model ask for: it was made "
                                  "for another model");
  }
  module.a.requires_grad_();
  module.b.requires_grad_();
  modules_.push_back(module);
  linear.adapter = [config = config_, module](const at::Tensor& input, const at::Tensor& output) {
    return adapt(config, module, input, output);
  };
}

}  // namespace remat::finetune
