#pragma once

namespace remat::app {

/// What has to be set before the first tensor: that tensors' bytes are counted, and that a failing
/// write is an error rather than death.
void set_up_process();

}  // namespace remat::app
