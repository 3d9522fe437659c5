#include "remat/tape/geometry.h"

namespace remat::tape {

namespace {

bool is_fresh_layout(const Geometry& geometry) {
  int64_t expected = 1;
  for (size_t i = geometry.dimensions(); i-- > 0;) {
    if (geometry.sizes()[i] != 1 && geometry.strides()[i] != expected) return false;
    expected *= geometry.sizes()[i];
  }
  return geometry.offset == 0;
}

std::string bracketed(const int64_t* numbers, size_t count) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i) text += (i ? ", " : "") + std::to_string(numbers[i]);
  return text + "]";
}

}  // namespace

int64_t Geometry::elements() const {
  int64_t count = 1;
  for (size_t i = 0; i < dimensions(); ++i) count *= sizes()[i];
  return count;
}

int64_t Geometry::reach() const {
  int64_t last = offset;
  for (size_t i = 0; i < dimensions(); ++i) {
    if (sizes()[i] == 0) return 0;
    last += (sizes()[i] - 1) * strides()[i];
  }
  return (last + 1) * dtype.bytes;
}

std::string to_text(const Geometry& geometry) {
  std::string text = geometry.dtype.name + bracketed(geometry.sizes(), geometry.dimensions());
  if (!is_fresh_layout(geometry)) {
    text += " strides " + bracketed(geometry.strides(), geometry.dimensions());
    if (geometry.offset != 0) text += " offset " + std::to_string(geometry.offset);
  }
  if (geometry.conjugate) text += " conj";
  if (geometry.negative) text += " neg";
  return text;
}

}  // namespace remat::tape
