#pragma once

#include <mutex>
#include <optional>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace remat::record {

/// Where a generator stood before an operator drew from it. CPU states take 5 KB, so operators
/// share one as long as nothing was drawn in between.
struct Draw {
  at::Generator generator;
  at::Tensor state;
};

/// The generator's present state, or `last` where that is the same. Nothing where the state cannot
/// be read (CUDA graph capture): what is drawn then cannot be repeated.
std::optional<Draw> observe(at::Generator generator, const Draw* last);

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
