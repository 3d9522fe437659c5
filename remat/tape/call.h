#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "remat/tape/geometry.h"

namespace remat::tape {

/// A tensor argument that the operator writes.
struct Write {
  uint32_t read = 0;        ///< which of the call's `reads` is the written argument
  bool overwrites = false;  ///< true iff every byte of the buffer is written and none is read first
};

/// Everything that repeated calls of an operator have in common: interned, so that ten thousand
/// nodes of one layer stack share a few dozen of these. What a subclass adds is how to run it
/// again.
struct Call {
  std::string op;               ///< "aten::addmm", or "aten::add.Tensor" with the overload
  std::string arguments;        ///< the arguments that are not tensors, printed: "beta=1, alpha=1"
  std::vector<Geometry> reads;  ///< each tensor argument, lists flattened, in argument order
  std::vector<Write> writes;    ///< ascending by `read`
  std::vector<Geometry> results;   ///< each result with a buffer of its own, in order
  std::vector<int64_t> allocated;  ///< bytes of each result's buffer, which may exceed its elements
  bool random = false;             ///< draws from a generator

  Call() = default;
  Call(const Call&) = default;
  Call& operator=(const Call&) = default;
  virtual ~Call() = default;
};

}  // namespace remat::tape
