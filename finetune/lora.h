#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/decoder.h"

namespace remat::finetune {

/// The part of PEFT's LoraConfig that is meant here.
struct LoraConfig {
  int64_t r = 16;
  double alpha = 32;
  double dropout = 0;
  bool rslora = false;
  /// Names of modules, as "q_proj" or with a part of their path before; or "all-linear" alone:
  /// every linear layer but the head.
  std::vector<std::string> targets{"all-linear"};

  /// alpha / r, or alpha / sqrt(r) with rslora (Kalajdzievski 2023, arXiv 2312.03732).
  [[nodiscard]] double scale() const;
};

/// Low-rank adapters (Hu et al. 2021, arXiv 2106.09685) on linear layers of a decoder:
/// y += scale * B(A(dropout(x))), in float32 but under autocast.
class Lora {
 public:
  /// The adapter of one linear layer.
  struct Module {
    std::string name;  ///< "model.layers.0.self_attn.q_proj"
    at::Tensor a;      ///< (r, in) float32, a leaf that is trained
    at::Tensor b;      ///< (out, r) float32, likewise
  };

  /// Puts fresh adapters on the targets: A Kaiming-uniform as in PEFT, from the default generator,
  /// B zero. Freezes every parameter of the decoder. Throws Error{usage} where r is not positive,
  /// dropout is outside [0, 1) or a target is in no module's name.
  Lora(models::Decoder& decoder, LoraConfig config);

  /// Puts these on instead. Throws Error{model} where the decoder lacks a module or has another
  /// shape.
  Lora(models::Decoder& decoder, LoraConfig config, std::vector<Module> modules);

  [[nodiscard]] const LoraConfig& config() const { return config_; }
  [[nodiscard]] const std::vector<Module>& modules() const { return modules_; }

 private:
  void attach(models::Linear& linear, Module module);

  LoraConfig config_;
  std::vector<Module> modules_;  // in the order of the decoder's layers
};

}  // namespace remat::finetune
