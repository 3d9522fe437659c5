#include "remat/policy/word.h"

#include <algorithm>

namespace remat::policy {

std::string quoted_if_needed(const std::string& name) {
  if (!name.empty() && std::all_of(name.begin(), name.end(), is_bare)) return name;
  std::string quoted = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace remat::policy
