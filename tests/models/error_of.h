#pragma once

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "models/error.h"

namespace remat::models {

/// What the Error says that `function` throws, or "no error".
template <typename Function>
std::string error_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline ::testing::AssertionResult says(std::string_view text, std::string_view part) {
  if (text.find(part) != std::string_view::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << '"' << text << "\" does not say \"" << part << '"';
}

}  // namespace remat::models
