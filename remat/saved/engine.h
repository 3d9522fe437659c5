#pragma once

namespace remat::saved {

/// Makes autograd ask remat for the hooks of every tensor it saves while a region is open. Once a
/// process, before the first region; later calls do nothing. Works alike with and without Python.
void install_engine();

}  // namespace remat::saved
