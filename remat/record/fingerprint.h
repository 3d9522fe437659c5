#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "remat/tape/geometry.h"

namespace remat::record {

/// What a tensor's elements were: a hash of each one, of each block of 64 where there are more than
/// 4096. Takes 8 bytes a block. Reads all elements, unlike the spot hash.
class Fingerprint {
 public:
  explicit Fingerprint(const at::Tensor& tensor);

  [[nodiscard]] const tape::Geometry& geometry() const { return geometry_; }

  /// "element [0, 3]", or "one of the elements [0, 64] to [0, 127]": the first that differs, in
  /// logical order, or the first block of which one does. Nothing where all are equal. REQUIRES:
  /// `other` has the same sizes.
  [[nodiscard]] std::optional<std::string> difference(const Fingerprint& other) const;

 private:
  [[nodiscard]] std::string position(int64_t element) const;

  tape::Geometry geometry_;
  std::vector<uint64_t> blocks_;
};

}  // namespace remat::record
