#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/config.h"
#include "models/linear.h"
#include "models/rms_norm.h"
#include "models/rope.h"

namespace remat::models {

/// Keys and values of the tokens seen so far, for generation without gradients. Room for `capacity`
/// tokens is allocated at once.
class KvCache {
 public:
  KvCache(const Config& config, int64_t batch, int64_t capacity, at::ScalarType dtype);

  [[nodiscard]] int64_t length() const { return length_; }  ///< tokens held
  [[nodiscard]] int64_t capacity() const { return capacity_; }

  /// Writes the keys and values (B, T, heads, head_dim) of `layer` behind the tokens held, and
  /// replaces them by all there are (B, length() + T, heads, head_dim).
  void append(size_t layer, at::Tensor& keys, at::Tensor& values);
  /// Counts the tokens that every layer has appended. Called once a forward pass.
  void advance(int64_t tokens) { length_ += tokens; }

 private:
  std::vector<at::Tensor> keys_;  // one a layer: (B, capacity, heads, head_dim)
  std::vector<at::Tensor> values_;
  int64_t capacity_ = 0;
  int64_t length_ = 0;
};

/// What the layers of one forward pass share.
struct Context {
  Rotation rotation;
  /// By sliding window (0: none), added to the scores: (B or 1, 1, T, keys), 0 or -inf. A window
  /// whose mask would be the plain causal one has none: the kernel's own is faster and free.
  std::map<int64_t, at::Tensor> masks;
  KvCache* cache = nullptr;
};

/// Grouped-query self attention (Ainslie et al. 2023, arXiv 2305.13245).
struct Attention {
  Linear q_proj;  ///< (heads * head_dim, hidden)
  Linear k_proj;  ///< (key_value_heads * head_dim, hidden)
  Linear v_proj;
  Linear o_proj;                  ///< (hidden, heads * head_dim)
  std::optional<RmsNorm> q_norm;  ///< (head_dim)
  std::optional<RmsNorm> k_norm;
  int64_t head_dim = 0;
  int64_t sliding_window = 0;

  /// (B, T, hidden) to the same. `layer` is the place in the cache.
  [[nodiscard]] at::Tensor forward(const at::Tensor& hidden, const Context& context,
                                   size_t layer) const;
};

}  // namespace remat::models
