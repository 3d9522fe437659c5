#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include <ATen/record_function.h>

namespace remat::testing {

/// Counts every operator that runs on any thread while it lives, calls inside other operators
/// included. One lives at a time. Open it after forward to see what backward runs.
class OperatorLog {
 public:
  OperatorLog();
  ~OperatorLog();
  OperatorLog(const OperatorLog&) = delete;
  OperatorLog& operator=(const OperatorLog&) = delete;

  /// How often the operator ran: "aten::exp", the overload left out.
  [[nodiscard]] int64_t count(const std::string& op) const;
  /// Calls `probe` whenever the operator is about to run, on the thread that runs it.
  void before(const std::string& op, std::function<void()> probe);

 private:
  static std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& event);

  mutable std::mutex mutex_;
  std::map<std::string, int64_t> counts_;
  std::map<std::string, std::function<void()>> probes_;
  at::CallbackHandle callback_;
};

}  // namespace remat::testing
