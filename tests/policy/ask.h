#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "remat/policy/policy.h"

namespace remat::policy {

/// Whether the policy keeps a value of 16 bytes that the operator made.
inline bool keeps(const Policy& policy, std::string_view op) {
  return policy({.op = op, .bytes = 16}) == Decision::keep;
}

/// Whether it keeps a value with these names.
inline bool keeps_named(const Policy& policy, const std::vector<std::string>& names) {
  return policy({.op = "aten::exp", .bytes = 16, .names = names}) == Decision::keep;
}

/// What the std::invalid_argument says that `call` throws.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no std::invalid_argument";
}

}  // namespace remat::policy
