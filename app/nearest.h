#pragma once

#include <string>
#include <vector>

namespace remat::app {

/// The name that was most likely meant: the one with the fewest letters to change, if those are few
/// for its length; else empty.
std::string nearest(const std::string& typed, const std::vector<std::string>& names);

}  // namespace remat::app
