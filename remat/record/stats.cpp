#include "remat/record/stats.h"

namespace remat::record {

const char* name_of(Reason reason) {
  switch (reason) {
    case Reason::recomputed:
      return "recomputed";
    case Reason::parameter:
      return "parameter";
    case Reason::input:
      return "input";
    case Reason::policy:
      return "policy";
    case Reason::cheaper:
      return "cheaper";
    case Reason::unknown:
      return "unknown";
    case Reason::opaque:
      return "opaque";
    case Reason::suspended:
      return "suspended";
  }
  return "?";
}

void Counters::reset() {
  ops_recorded = 0;
  ops_replayed = 0;
  regions = 0;
  for (auto& bytes : saved_bytes) bytes = 0;
  for (auto& tensors : saved_tensors) tensors = 0;
}

void Counters::move(int64_t bytes, Reason from, Reason to) {
  saved_bytes[static_cast<size_t>(from)] -= bytes;
  saved_bytes[static_cast<size_t>(to)] += bytes;
  --saved_tensors[static_cast<size_t>(from)];
  ++saved_tensors[static_cast<size_t>(to)];
}

Counters& counters() {
  static auto& counters = *new Counters;  // backward may still run while the process exits
  return counters;
}

}  // namespace remat::record
