#include "remat/recorder_of_thread.h"

#include "remat/replay/replayer.h"
#include "remat/saved/engine.h"

namespace remat {

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

}  // namespace remat
