#include "remat/policy/pattern.h"

#include <string>

namespace remat::policy {

namespace {

constexpr auto kNone = std::string_view::npos;

/// Without the overload: "aten::add" of "aten::add.Tensor".
std::string_view base_of(std::string_view op) { return op.substr(0, op.find('.')); }

}  // namespace

bool matches(std::string_view pattern, std::string_view text) {
  size_t at = 0;
  size_t seen = 0;
  size_t star = kNone;  // the last one met, which may stand for more
  size_t resume = 0;    // behind what it stands for so far
  while (seen < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      resume = seen;
    } else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == text[seen])) {
      ++at;
      ++seen;
    } else if (star != kNone) {
      at = star + 1;
      seen = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == kNone;
}

bool matches_operator(std::string_view pattern, std::string_view op) {
  if (pattern.find("::") == kNone) {
    const auto colons = op.find("::");
    if (colons != kNone) op.remove_prefix(colons + 2);
  }
  return matches(pattern, op) || matches(pattern, base_of(op));
}

bool matches_module(std::string_view pattern, std::string_view path) {
  const std::string anywhere = "*." + std::string(pattern);
  std::string around = "." + std::string(path);  // then without its last parts, one after another
  while (true) {
    if (matches(anywhere, around) || matches(pattern, around)) return true;
    const size_t dot = around.rfind('.');
    if (dot == 0) return false;
    around.resize(dot);
  }
}

}  // namespace remat::policy
