#include "models/decoder.h"

#include <limits>
#include <set>
#include <stdexcept>

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

namespace remat::models {

// ---- Positions and masks
// -------------------------------------------------------------------------

namespace {

int64_t tokens_before(const Inputs& inputs) {
  return inputs.cache == nullptr ? 0 : inputs.cache->length();
}

/// Counts from 0 where a document begins: the distance to the latest place where its number
/// changes.
at::Tensor positions_in_documents(const at::Tensor& documents) {
  const auto places = at::arange(documents.size(1), at::kLong).expand_as(documents);
  auto starts = at::zeros_like(documents);
  const auto begins = documents.slice(1, 1).ne(documents.slice(1, 0, -1));
  starts.slice(1, 1).copy_(places.slice(1, 1) * begins);
  return places - std::get<0>(starts.cummax(1));
}

at::Tensor positions_of(const Inputs& inputs) {
  if (inputs.positions.defined()) return inputs.positions;
  if (inputs.documents.defined()) return positions_in_documents(inputs.documents);
  const int64_t before = tokens_before(inputs);
  return at::arange(before, before + inputs.tokens.size(1), at::kLong).unsqueeze(0);
}

/// (1, T, keys) or (B, T, keys): which keys each query sees.
at::Tensor visible_keys(const Inputs& inputs, int64_t window) {
  const int64_t before = tokens_before(inputs);
  const int64_t keys = before + inputs.tokens.size(1);
  const auto query_places = at::arange(before, keys, at::kLong).unsqueeze(1);
  const auto key_places = at::arange(keys, at::kLong).unsqueeze(0);
  auto visible = key_places <= query_places;
  if (window > 0) visible = visible.logical_and(key_places > query_places - window);
  if (!inputs.documents.defined()) return visible.unsqueeze(0);
  const auto same = inputs.documents.unsqueeze(2).eq(inputs.documents.unsqueeze(1));
  return same.logical_and(visible);
}

bool needs_mask(const Inputs& inputs, int64_t window) {
  const int64_t before = tokens_before(inputs);
  const int64_t tokens = inputs.tokens.size(1);
  const bool hides_by_window = window > 0 && before + tokens > window;
  // The kernel's own causal mask starts at the first key, so it does not fit behind a cache.
  return inputs.documents.defined() || hides_by_window || (before > 0 && tokens > 1);
}

/// One mask for all layers of a window. Additive: the kernel would turn a boolean one into this,
/// and autograd save it, in every layer again.
at::Tensor additive_mask(const Inputs& inputs, int64_t window, at::ScalarType dtype) {
  const auto options = at::TensorOptions(dtype);
  const auto seen = at::zeros({}, options);
  const auto hidden = at::full({}, -std::numeric_limits<double>::infinity(), options);
  return at::where(visible_keys(inputs, window), seen, hidden).unsqueeze(1);
}

/// What queries and keys will be: under autocast not what the parameters are.
at::ScalarType compute_dtype(const Decoder& decoder) {
  return at::autocast::is_autocast_enabled(at::kCPU) ? at::autocast::get_autocast_dtype(at::kCPU)
                                                     : decoder.dtype();
}

Context make_context(const Decoder& decoder, const Inputs& inputs) {
  Context context;
  context.rotation = make_rotation(decoder.inverse_frequencies, positions_of(inputs),
                                   /*dtype=*/decoder.dtype());
  const auto& windows = decoder.config.sliding_window;
  for (const int64_t window : std::set(windows.begin(), windows.end())) {
    if (needs_mask(inputs, window)) {
      context.masks[window] = additive_mask(inputs, window, compute_dtype(decoder));
    }
  }
  context.cache = inputs.cache;
  return context;
}

void check(const Inputs& inputs) {
  const auto& tokens = inputs.tokens;
  if (!tokens.defined() || tokens.dim() != 2 || tokens.scalar_type() != at::kLong) {
    throw std::invalid_argument("models: tokens must be int64 of shape (rows, tokens)");
  }
  const auto fits = [&](const at::Tensor& other) {
    return !other.defined() ||
           (other.scalar_type() == at::kLong && other.sizes() == tokens.sizes());
  };
  if (!fits(inputs.positions) || !fits(inputs.documents)) {
    throw std::invalid_argument("models: positions and documents must be int64, shaped as tokens");
  }
  if (inputs.cache == nullptr) return;
  if (inputs.documents.defined()) {
    throw std::invalid_argument("models: a cache holds one document a row; drop documents");
  }
  if (inputs.cache->length() + tokens.size(1) > inputs.cache->capacity()) {
    throw std::invalid_argument(
        fmt::format("models: {} tokens do not fit a cache with room for {}; make it larger",
                    inputs.cache->length() + tokens.size(1), inputs.cache->capacity()));
  }
}

at::Tensor run_in_order(const std::vector<RunLayer>& layers, at::Tensor hidden) {
  for (const auto& layer : layers) hidden = layer(std::move(hidden));
  return hidden;
}

}  // namespace

// ---- Forward
// -------------------------------------------------------------------------------------

at::Tensor DecoderLayer::forward(const at::Tensor& hidden, const Context& context,
                                 size_t index) const {
  const auto attended = hidden + self_attn.forward(input_layernorm.forward(hidden), context, index);
  return attended + mlp.forward(post_attention_layernorm.forward(attended));
}

at::Tensor Decoder::hidden_states(const Inputs& inputs, const RunLayers& run) const {
  check(inputs);
  const auto context = make_context(*this, inputs);
  std::vector<RunLayer> steps;
  steps.reserve(layers.size());
  for (size_t index = 0; index < layers.size(); ++index) {
    steps.emplace_back([this, &context, index](const at::Tensor& hidden) {
      return layers[index].forward(hidden, context, index);
    });
  }
  auto hidden = at::embedding(embed_tokens, inputs.tokens);
  hidden = run ? run(steps, std::move(hidden)) : run_in_order(steps, std::move(hidden));
  if (inputs.cache != nullptr) inputs.cache->advance(inputs.tokens.size(1));
  return norm.forward(hidden);
}

// ---- Parameters
// ----------------------------------------------------------------------------------

namespace {

/// Calls `visit(name, linear)` for every linear layer, in order of use.
template <typename DecoderLayers, typename Visit>
void visit_linears(DecoderLayers& layers, size_t index, const Visit& visit) {
  auto& attention = layers[index].self_attn;
  auto& mlp = layers[index].mlp;
  const auto prefix = fmt::format("model.layers.{}.", index);
  visit(prefix + "self_attn.q_proj", attention.q_proj);
  visit(prefix + "self_attn.k_proj", attention.k_proj);
  visit(prefix + "self_attn.v_proj", attention.v_proj);
  visit(prefix + "self_attn.o_proj", attention.o_proj);
  visit(prefix + "mlp.gate_proj", mlp.gate_proj);
  visit(prefix + "mlp.up_proj", mlp.up_proj);
  visit(prefix + "mlp.down_proj", mlp.down_proj);
}

/// Calls `visit(name, tensor)` for every tensor that there may be; a bias may be undefined.
template <typename AnyDecoder, typename Visit>
void visit_parameters(AnyDecoder& decoder, const Visit& visit) {
  visit("model.embed_tokens.weight", decoder.embed_tokens);
  for (size_t index = 0; index < decoder.layers.size(); ++index) {
    auto& layer = decoder.layers[index];
    const auto prefix = fmt::format("model.layers.{}.", index);
    visit(prefix + "input_layernorm.weight", layer.input_layernorm.weight);
    visit_linears(decoder.layers, index, [&](const std::string& name, auto& linear) {
      visit(name + ".weight", linear.weight);
      visit(name + ".bias", linear.bias);
    });
    if (layer.self_attn.q_norm) {
      visit(prefix + "self_attn.q_norm.weight", layer.self_attn.q_norm->weight);
      visit(prefix + "self_attn.k_norm.weight", layer.self_attn.k_norm->weight);
    }
    visit(prefix + "post_attention_layernorm.weight", layer.post_attention_layernorm.weight);
  }
  visit("model.norm.weight", decoder.norm.weight);
  if (!decoder.config.tie_word_embeddings) visit("lm_head.weight", decoder.lm_head.weight);
}

}  // namespace

std::vector<std::pair<std::string, at::Tensor>> Decoder::named_parameters() const {
  std::vector<std::pair<std::string, at::Tensor>> named;
  visit_parameters(*this, [&](const std::string& name, const at::Tensor& tensor) {
    if (tensor.defined()) named.emplace_back(name, tensor);
  });
  return named;
}

std::vector<std::pair<std::string, Linear*>> Decoder::named_linears() {
  std::vector<std::pair<std::string, Linear*>> named;
  for (size_t index = 0; index < layers.size(); ++index) {
    visit_linears(layers, index, [&](const std::string& name, Linear& linear) {
      named.emplace_back(name, &linear);
    });
  }
  return named;
}

// ---- Structure
// -----------------------------------------------------------------------------------

namespace {

/// On the meta device: a shape and a dtype, no memory.
at::Tensor shape_only(at::IntArrayRef shape) {
  return at::empty(shape, at::TensorOptions(at::kMeta).dtype(at::kFloat));
}

Linear make_linear(int64_t in, int64_t out, bool bias) {
  return {shape_only({out, in}), bias ? shape_only({out}) : at::Tensor(), {}};
}

Attention make_attention(const Config& config, int64_t window) {
  const int64_t width = config.num_attention_heads * config.head_dim;
  const int64_t narrow = config.num_key_value_heads * config.head_dim;
  const int64_t hidden = config.hidden_size;
  Attention attention;
  attention.q_proj = make_linear(hidden, width, config.qkv_bias);
  attention.k_proj = make_linear(hidden, narrow, config.qkv_bias);
  attention.v_proj = make_linear(hidden, narrow, config.qkv_bias);
  attention.o_proj = make_linear(width, hidden, config.o_bias);
  if (config.qk_norm) {
    attention.q_norm = RmsNorm{shape_only({config.head_dim}), config.rms_norm_eps};
    attention.k_norm = RmsNorm{shape_only({config.head_dim}), config.rms_norm_eps};
  }
  attention.head_dim = config.head_dim;
  attention.sliding_window = window;
  return attention;
}

Mlp make_mlp(const Config& config) {
  return {make_linear(config.hidden_size, config.intermediate_size, config.mlp_bias),
          make_linear(config.hidden_size, config.intermediate_size, config.mlp_bias),
          make_linear(config.intermediate_size, config.hidden_size, config.mlp_bias)};
}

}  // namespace

Decoder make_decoder(Config config, const GiveParameter& give) {
  Decoder decoder;
  const auto make_norm = [&] {
    return RmsNorm{shape_only({config.hidden_size}), config.rms_norm_eps};
  };
  decoder.embed_tokens = shape_only({config.vocab_size, config.hidden_size});
  for (const int64_t window : config.sliding_window) {
    decoder.layers.push_back(
        {make_norm(), make_attention(config, window), make_norm(), make_mlp(config)});
  }
  decoder.norm = make_norm();
  decoder.lm_head = make_linear(config.hidden_size, config.vocab_size, /*bias=*/false);
  decoder.inverse_frequencies = inverse_frequencies(config.rope, config.head_dim);
  decoder.config = std::move(config);

  visit_parameters(decoder, [&](const std::string& name, at::Tensor& tensor) {
    if (tensor.defined()) tensor = give(name, tensor.sizes());
  });
  if (decoder.config.tie_word_embeddings) decoder.lm_head.weight = decoder.embed_tokens;
  return decoder;
}

}  // namespace remat::models
