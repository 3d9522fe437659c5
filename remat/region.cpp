#include "remat/region.h"

#include <c10/util/Exception.h>

#include "remat/record/recorder.h"
#include "remat/replay/replayer.h"
#include "remat/saved/engine.h"

namespace remat {

namespace {

/// The recorder of this thread: the one that records, or one to start.
std::shared_ptr<record::Recorder> recorder_of_thread() {
  thread_local std::shared_ptr<record::Recorder> mine;
  if (mine && mine->is_abandoned()) mine->stop();
  if (mine && record::Recorder::current() == mine.get()) return mine;
  // In a forked child, regions that it inherited and will never close still hold the old one.
  if (!mine || mine.use_count() > 1) mine = std::make_shared<record::Recorder>();
  saved::install_engine();
  auto recording = std::make_shared<record::Recording>();
  recording->source = std::make_unique<replay::Replayer>();
  record::counters().regions.fetch_add(1, std::memory_order_relaxed);
  mine->start(std::move(recording));
  return mine;
}

}  // namespace

Region::Region(const RegionOptions& options) : segments_(options.segments) {
  if (!record::can_record()) return;
  recorder_ = recorder_of_thread();
  recording_ = recorder_->recording();
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
  if (recorder->failure() && recorder->open_regions() == 0)
    std::rethrow_exception(recorder->failure());
}

void Region::leave() {
  if (!recorder_) return;
  const auto recorder = std::exchange(recorder_, nullptr);
  recorder->close_region(depth_, segments_);
}

bool Region::is_recording() const { return recorder_ != nullptr; }

const tape::Tape& Region::tape() const {
  static const tape::Tape empty;
  return recording_ ? recording_->tape : empty;
}

int64_t Region::tape_bytes() const { return tape().own_bytes(); }

int64_t Region::held_bytes() const { return recording_ ? recording_->held_bytes() : 0; }

}  // namespace remat
