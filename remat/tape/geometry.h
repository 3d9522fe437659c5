#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace remat::tape {

/// Element type. `code` is c10::ScalarType's number, `bytes` the size of one element; `name` is a
/// string with static storage ("float", "long"), for print only.
struct DType {
  int8_t code = 0;
  uint8_t bytes = 0;
  const char* name = "";

  friend bool operator==(const DType& a, const DType& b) { return a.code == b.code; }
};

/// Device of a buffer. `type` is c10::DeviceType's number, `index` is -1 where the type has only
/// one.
struct Device {
  int8_t type = 0;
  int8_t index = -1;

  friend bool operator==(const Device&, const Device&) = default;
};

/// How a tensor looks into a buffer: everything of it but the bytes.
struct Geometry {
  DType dtype;
  Device device;
  bool conjugate = false;
  bool negative = false;
  int64_t offset = 0;  ///< in elements, from the start of the buffer
  std::vector<int64_t>
      extents;  ///< sizes, then strides in elements; twice as long as there are dimensions

  [[nodiscard]] size_t dimensions() const { return extents.size() / 2; }
  [[nodiscard]] const int64_t* sizes() const { return extents.data(); }
  [[nodiscard]] const int64_t* strides() const { return extents.data() + dimensions(); }

  /// Number of elements; 1 for a scalar.
  [[nodiscard]] int64_t elements() const;
  /// Bytes of the elements, holes between them not counted.
  [[nodiscard]] int64_t bytes() const { return elements() * dtype.bytes; }
  /// Bytes from the start of the buffer to behind the last element.
  [[nodiscard]] int64_t reach() const;

  friend bool operator==(const Geometry&, const Geometry&) = default;
};

/// "float32[4, 8]"; strides and offset are shown where they are not those of a fresh tensor.
std::string to_text(const Geometry& geometry);

}  // namespace remat::tape
