#pragma once

#include <memory>

#include "remat/record/recorder.h"

namespace remat {

/// The recorder of this thread: the one that records, or one that now starts a recording of its
/// own.
std::shared_ptr<record::Recorder> recorder_of_thread();

}  // namespace remat
