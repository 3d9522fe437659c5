#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace remat::record {

/// Where a generator stood before an operator drew from it. States of the CPU generator take 5 KB,
/// most of it the block of numbers that it draws from: where little was drawn since an older state,
/// that one is shared and how to get on from it is noted.
struct Draw {
  at::Generator generator;
  at::Tensor state;     ///< the generator's, or an older one
  uint32_t twists = 0;  ///< blocks that it went on since that
  /// What a state has besides its block; empty where `state` is the generator's own.
  std::vector<char> rest = {};

  friend bool operator==(const Draw& a, const Draw& b) {
    return a.generator == b.generator && a.state.is_same(b.state) && a.twists == b.twists &&
           a.rest == b.rest;
  }
};

/// Notes where generators stand, one after the other on a thread.
class DrawLog {
 public:
  /// The generator's present state. Nothing where it cannot be read (CUDA graph capture): what is
  /// drawn then cannot be repeated.
  std::optional<Draw> observe(at::Generator generator);

 private:
  [[nodiscard]] std::optional<uint32_t> twists_to(const char* state);

  at::Generator generator_;
  std::vector<char> last_;  ///< the state that was noted last; empty: there is none
  uint32_t twists_ = 0;     ///< from `base_` to it
  c10::weak_intrusive_ptr<c10::TensorImpl> base_{c10::intrusive_ptr<c10::TensorImpl>()};
};

/// A new generator of the same kind in that state: a replay with it disturbs nobody's stream.
at::Generator replica_of(const Draw& draw);

/// For operators that take no generator: sets the default one back while it lives. Holds a
/// process-wide lock, since draws of another thread in between would be undone.
class DrawScope {
 public:
  explicit DrawScope(const Draw& draw);
  ~DrawScope();
  DrawScope(const DrawScope&) = delete;
  DrawScope& operator=(const DrawScope&) = delete;

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  at::Generator generator_;
  at::Tensor entered_;
};

}  // namespace remat::record
