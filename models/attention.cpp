#include "models/attention.h"

#include <array>

#include <ATen/ops/empty.h>
#include <ATen/ops/scaled_dot_product_attention.h>

namespace remat::models {

// ---- Cache
// ---------------------------------------------------------------------------------------

KvCache::KvCache(const Config& config, int64_t batch, int64_t capacity, at::ScalarType dtype)
    : capacity_(capacity) {
  const std::array<int64_t, 4> shape{batch, capacity, config.num_key_value_heads, config.head_dim};
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    keys_.push_back(at::empty(shape, dtype));
    values_.push_back(at::empty(shape, dtype));
  }
}

void KvCache::append(size_t layer, at::Tensor& keys, at::Tensor& values) {
  const int64_t tokens = keys.size(1);
  keys_[layer].narrow(1, length_, tokens).copy_(keys);
  values_[layer].narrow(1, length_, tokens).copy_(values);
  keys = keys_[layer].narrow(1, 0, length_ + tokens);
  values = values_[layer].narrow(1, 0, length_ + tokens);
}

// ---- Attention
// -----------------------------------------------------------------------------------

namespace {

/// (B, T, heads * head_dim) to (B, T, heads, head_dim).
at::Tensor split_heads(const at::Tensor& joined, int64_t head_dim) {
  return joined.unflatten(-1, {-1, head_dim});
}

const at::Tensor* find_mask(const Context& context, int64_t window) {
  const auto found = context.masks.find(window);
  return found == context.masks.end() ? nullptr : &found->second;
}

}  // namespace

at::Tensor Attention::forward(const at::Tensor& hidden, const Context& context,
                              size_t layer) const {
  auto queries = split_heads(q_proj.forward(hidden), head_dim);
  auto keys = split_heads(k_proj.forward(hidden), head_dim);
  auto values = split_heads(v_proj.forward(hidden), head_dim);
  if (q_norm) queries = q_norm->forward(queries);
  if (k_norm) keys = k_norm->forward(keys);
  queries = apply_rope(queries, context.rotation);
  keys = apply_rope(keys, context.rotation);
  if (context.cache != nullptr) context.cache->append(layer, keys, values);

  const auto* mask = find_mask(context, sliding_window);
  // A single query may see every key of the cache: nothing to mask.
  const bool causal = mask == nullptr && queries.size(1) > 1;
  const bool grouped = queries.size(2) != keys.size(2);
  const auto attended = at::scaled_dot_product_attention(
      queries.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2),
      mask == nullptr ? std::nullopt : std::optional(*mask), /*dropout_p=*/0.0, causal,
      /*scale=*/std::nullopt, grouped);
  return o_proj.forward(attended.transpose(1, 2).flatten(2));
}

}  // namespace remat::models
