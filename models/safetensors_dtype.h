#pragma once

#include <stdexcept>
#include <string>

#include <c10/core/ScalarType.h>

#include "models/safetensors_header.h"

namespace remat::models::safetensors {

inline c10::ScalarType scalar_type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::bool_:
      return c10::kBool;
    case Dtype::u8:
      return c10::kByte;
    case Dtype::i8:
      return c10::kChar;
    case Dtype::i16:
      return c10::kShort;
    case Dtype::f16:
      return c10::kHalf;
    case Dtype::bf16:
      return c10::kBFloat16;
    case Dtype::i32:
      return c10::kInt;
    case Dtype::f32:
      return c10::kFloat;
    case Dtype::f64:
      return c10::kDouble;
    case Dtype::i64:
      return c10::kLong;
  }
  throw std::invalid_argument("models: no such dtype");
}

/// Throws std::invalid_argument where the format has no such dtype.
inline Dtype dtype_of(c10::ScalarType type) {
  for (const auto dtype : {Dtype::bool_, Dtype::u8, Dtype::i8, Dtype::i16, Dtype::f16, Dtype::bf16,
                           Dtype::i32, Dtype::f32, Dtype::f64, Dtype::i64}) {
    if (scalar_type_of(dtype) == type) return dtype;
  }
  throw std::invalid_argument(std::string("models: safetensors cannot hold tensors of dtype ") +
                              c10::toString(type));
}

}  // namespace remat::models::safetensors
