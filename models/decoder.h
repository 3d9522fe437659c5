#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/attention.h"
#include "models/config.h"
#include "models/linear.h"
#include "models/mlp.h"
#include "models/rms_norm.h"

namespace remat::models {

struct DecoderLayer {
  RmsNorm input_layernorm;
  Attention self_attn;
  RmsNorm post_attention_layernorm;
  Mlp mlp;

  [[nodiscard]] at::Tensor forward(const at::Tensor& hidden, const Context& context,
                                   size_t index) const;
};

/// What a forward pass is given. B rows of T tokens; a row is padded on the right, where the causal
/// mask hides the padding from every token before it.
struct Inputs {
  at::Tensor tokens;  ///< (B, T) int64
  /// (B, T) int64. Undefined: counted from 0 in every row or document, or on from the cache.
  at::Tensor positions;
  /// (B, T) int64: attention stays among equal numbers. Undefined: a row is one document. Not
  /// together with a cache.
  at::Tensor documents;
  KvCache* cache = nullptr;  ///< for generation, without gradients
};

/// One layer as a function of the hidden states (B, T, hidden).
using RunLayer = std::function<at::Tensor(at::Tensor hidden)>;

/// Runs `layers`, one after the other, on `hidden`. The caller's way to apply recomputation: it may
/// call a layer inside a region, or several at once. The layers live as long as the call.
using RunLayers = std::function<at::Tensor(const std::vector<RunLayer>& layers, at::Tensor hidden)>;

/// A causal language model: plain structs of tensors. Nothing is trained unless the caller says
/// requires_grad_() of a parameter. Works under at::autocast; draws no random numbers.
struct Decoder {
  Config config;
  at::Tensor embed_tokens;  ///< (vocab, hidden)
  std::vector<DecoderLayer> layers;
  RmsNorm norm;
  /// (vocab, hidden). Where embeddings are tied, its weight is the very tensor embed_tokens.
  Linear lm_head;
  at::Tensor inverse_frequencies;  ///< (head_dim / 2) float32; not a parameter

  /// The hidden states after the last norm, which the head reads: (B, T, hidden). Throws
  /// std::invalid_argument on shapes that do not fit.
  [[nodiscard]] at::Tensor hidden_states(const Inputs& inputs, const RunLayers& run = {}) const;

  /// (..., hidden) to (..., vocab).
  [[nodiscard]] at::Tensor logits(const at::Tensor& hidden) const {
    return lm_head.forward(hidden);
  }

  /// Every parameter by its name in files ("model.layers.0.mlp.up_proj.weight"), in order of use. A
  /// tied head is not listed twice.
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> named_parameters() const;

  /// Every linear layer of the decoder layers by its module's name
  /// ("model.layers.0.mlp.up_proj"), in order of use, for adapters; the head is not among them.
  [[nodiscard]] std::vector<std::pair<std::string, Linear*>> named_linears();

  /// Of the parameters.
  [[nodiscard]] at::ScalarType dtype() const { return embed_tokens.scalar_type(); }
};

/// Gives the tensor for a parameter of that name and shape.
using GiveParameter = std::function<at::Tensor(const std::string& name, at::IntArrayRef shape)>;

/// A decoder of that configuration, its parameters given by `give`, which is asked for each once,
/// in the order of Decoder::named_parameters.
Decoder make_decoder(Config config, const GiveParameter& give);

}  // namespace remat::models
