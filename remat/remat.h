#pragma once

#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "remat/gather.h"
#include "remat/memory/memory.h"
#include "remat/name.h"
#include "remat/policy/jax.h"
#include "remat/policy/parse.h"
#include "remat/policy/policy.h"
#include "remat/policy/rules.h"
#include "remat/region.h"
#include "remat/replayable.h"
#include "remat/stats.h"
#include "remat/tape/print.h"

/// Train in the memory you have: keep some results of the forward pass for backward and compute the
/// others again, with gradients equal bit for bit. See docs/tour.md.
namespace remat {

/// Calls `function(arguments...)` in a region and returns its result. Any callable, any arguments,
/// any result.
///
///     auto y = remat::checkpoint(block, x);
///
/// Unlike torch.utils.checkpoint it never calls `function` again: backward repeats the recorded
/// operators that it needs, so side effects happen once. Throws what `function` throws; and
/// c10::Error if recording failed.
template <typename Function, typename... Arguments>
decltype(auto) checkpoint(Function&& function, Arguments&&... arguments) {
  Region region;
  if constexpr (std::is_void_v<std::invoke_result_t<Function, Arguments...>>) {
    std::invoke(std::forward<Function>(function), std::forward<Arguments>(arguments)...);
    region.close();
  } else {
    decltype(auto) result =
        std::invoke(std::forward<Function>(function), std::forward<Arguments>(arguments)...);
    region.close();
    return static_cast<std::invoke_result_t<Function, Arguments...>>(
        std::forward<decltype(result)>(result));
  }
}

/// Runs `layers` one after the other on `input`, cut evenly into `segments` regions: ceil(sqrt(n))
/// by default, so that memory grows with sqrt(n) (Chen et al. 2016, arXiv 1604.06174). More
/// segments than layers are as many as layers. Throws std::invalid_argument where there is no layer
/// or segments is 0.
using Layer = std::function<at::Tensor(at::Tensor)>;
at::Tensor checkpoint_sequential(const std::vector<Layer>& layers, at::Tensor input,
                                 std::optional<size_t> segments = std::nullopt,
                                 const RegionOptions& options = {});

}  // namespace remat
