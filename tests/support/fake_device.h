#pragma once

#include <c10/core/Device.h>

namespace remat::testing {

/// A device beside the CPU, as an accelerator's plug-in registers one: an allocator, a guard, and
/// kernels, which compute on the host. It has no generator. Nothing of remat knows it, so what
/// works here needs c10's generic interfaces alone. Registered by the first call.
c10::Device fake_device();

}  // namespace remat::testing
