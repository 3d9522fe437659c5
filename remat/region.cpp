#include "remat/region.h"

#include <c10/util/Exception.h>

#include "remat/record/recorder.h"
#include "remat/recorder_of_thread.h"

namespace remat {

Region::Region(const RegionOptions& options) : segments_(options.segments) {
  if (!record::can_record()) return;
  recorder_ = recorder_of_thread();
  recording_ = recorder_->recording();
  if (options.verify || record::verifies_by_default()) recorder_->verify();
  recorder_->open_region(options.policy);
  depth_ = recorder_->open_regions();
}

Region::~Region() {
  try {
    leave();
  } catch (...) {  // a destructor that runs because of an exception must not throw another
  }
}

void Region::close() {
  if (!recorder_) return;
  const auto recorder = recorder_;
  TORCH_CHECK(recorder->is_this_thread(),
              "remat: a region must be closed on the thread that opened it");
  leave();
  if (recorder->open_regions() != 0) return;
  if (const auto failure = recorder->take_failure()) std::rethrow_exception(failure);
}

void Region::leave() {
  if (!recorder_) return;
  const auto recorder = std::exchange(recorder_, nullptr);
  recorder->close_region(depth_, segments_);
}

void Region::set_module(std::string path) {
  if (recorder_) recorder_->set_module(depth_, std::move(path));
}

bool Region::is_recording() const { return recorder_ != nullptr; }

const tape::Tape& Region::tape() const {
  static const tape::Tape empty;
  return recording_ ? recording_->tape : empty;
}

int64_t Region::tape_bytes() const { return tape().own_bytes(); }

int64_t Region::held_bytes() const { return recording_ ? recording_->held_bytes() : 0; }

}  // namespace remat
