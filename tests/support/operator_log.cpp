#include "tests/support/operator_log.h"

#include <atomic>

namespace remat::testing {

namespace {

std::atomic<OperatorLog*> alive{nullptr};

}  // namespace

std::unique_ptr<at::ObserverContext> OperatorLog::on_begin(const at::RecordFunction& event) {
  auto* log = alive.load();
  if (log == nullptr) return nullptr;
  std::function<void()> probe;
  {
    const std::lock_guard lock(log->mutex_);
    ++log->counts_[event.name()];
    const auto found = log->probes_.find(event.name());
    if (found != log->probes_.end()) probe = found->second;
  }
  if (probe) probe();
  return nullptr;
}

OperatorLog::OperatorLog()
    : callback_(at::addGlobalCallback(
          at::RecordFunctionCallback(on_begin).scopes({at::RecordScope::FUNCTION}))) {
  alive = this;
}

OperatorLog::~OperatorLog() {
  alive = nullptr;
  at::removeCallback(callback_);
}

int64_t OperatorLog::count(const std::string& op) const {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find(op);
  return found == counts_.end() ? 0 : found->second;
}

void OperatorLog::before(const std::string& op, std::function<void()> probe) {
  const std::lock_guard lock(mutex_);
  probes_[op] = std::move(probe);
}

}  // namespace remat::testing
