#pragma once

#include <functional>

namespace remat::saved {

/// Makes autograd ask remat for the hooks of every tensor it saves while a region is open. Once a
/// process, before the first region; later calls do nothing. Works alike with and without Python.
void install_engine();

/// Calls `done` when the backward pass that this thread is in has ended well. Never where the
/// thread is in none.
void when_backward_ends(std::function<void()> done);

}  // namespace remat::saved
