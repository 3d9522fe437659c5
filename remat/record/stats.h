#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace remat::record {

/// Why a saved tensor is kept and not recomputed.
enum class Reason : uint8_t {
  recomputed,  ///< it is not kept
  parameter,   ///< a leaf that requires grad: it lives anyway
  input,       ///< made outside the region
  policy,      ///< a policy keeps its operator's results
  cheaper,     ///< it is smaller than what recomputing it would hold
  unknown,     ///< written by something the recorder did not see, or never wholly written
  opaque,      ///< a subclass, sparse, quantized, nested, or without data
  suspended,   ///< saved where nothing is recorded: in a backward pass, or after the tape failed
};
inline constexpr size_t kReasons = 8;

const char* name_of(Reason reason);

/// Counts of this process since the start or the last reset, all threads together.
struct Counters {
  std::atomic<int64_t> ops_recorded{0};
  std::atomic<int64_t> ops_replayed{0};
  std::atomic<int64_t> regions{0};
  std::array<std::atomic<int64_t>, kReasons>
      saved_bytes{};  ///< of saved tensors, by what was done with them
  std::array<std::atomic<int64_t>, kReasons> saved_tensors{};

  void reset();
  /// A saved tensor of so many bytes counts under another reason than it was counted under.
  void move(int64_t bytes, Reason from, Reason to);
};

Counters& counters();

}  // namespace remat::record
