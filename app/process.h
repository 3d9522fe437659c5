#pragma once

namespace remat::app {

/// What has to be set before the first tensor: that tensors' bytes are counted, and that a failing
/// write is an error rather than death.
void set_up_process();

/// From here on malloc returns memory to the system as soon as it is freed: the process then holds
/// little more than its live tensors, for the price of faulting every page in again.
void return_memory_at_once();

}  // namespace remat::app
