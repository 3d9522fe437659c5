#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

/// Sharded training (ZeRO-3, FSDP) and offloading free a parameter's storage after use. A replay
/// that reads it asks for it here.
namespace remat::record {

/// Fills `parameter`, which then has its bytes until the returned object dies; null where the
/// parameter is not this one's to fill. Called on the thread that runs backward, in its
/// surroundings and with nothing recorded; may communicate, since replays of equal programs ask in
/// the same order on every rank. May throw.
using Gather = std::function<std::shared_ptr<void>(const at::Tensor& parameter)>;

/// Adds a way to gather, for every thread. The last added is asked first. Returns what
/// remove_gather takes.
uint64_t add_gather(Gather gather);
void remove_gather(uint64_t id);

/// True iff a way to gather was added and not removed.
bool has_gather();

/// Null where nobody fills the parameter.
std::shared_ptr<void> gather(const at::Tensor& parameter);

}  // namespace remat::record
