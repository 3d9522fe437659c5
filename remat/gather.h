#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

namespace remat {

/// Fills `parameter`, which then has the shape and the bytes that the forward pass read until the
/// returned object dies; null where the parameter is not this one's to fill. Called on the thread
/// that runs backward, with nothing recorded. May communicate: ranks that run the same program ask
/// in the same order. May throw; freeing must not.
using Gather = std::function<std::shared_ptr<void>(const at::Tensor& parameter)>;

/// Says how a parameter whose storage exists only around use (sharded, or moved to the host) is
/// brought back when backward recomputes from it. For all threads; of several the last added is
/// asked first. Returns what remove_gather takes.
///
///     remat::add_gather([&](const at::Tensor& parameter) -> std::shared_ptr<void> {
///       auto* shard = shards.find(parameter);
///       if (shard == nullptr) return nullptr;
///       shard->all_gather();
///       return {shard, [](Shard* gathered) { gathered->free(); }};
///     });
uint64_t add_gather(Gather gather);
void remove_gather(uint64_t id);

}  // namespace remat
