#include "remat/policy/policy.h"

#include <algorithm>
#include <stdexcept>

namespace remat::policy {

namespace {

/// True iff `name` names `op`: "aten::add.Tensor" is named by itself, "aten::add", "add.Tensor" and
/// "add".
bool names(std::string_view name, std::string_view op) {
  if (name.find("::") == std::string_view::npos) {
    const auto colons = op.find("::");
    if (colons != std::string_view::npos) op.remove_prefix(colons + 2);
  }
  return op == name || (op.size() > name.size() && op.starts_with(name) && op[name.size()] == '.');
}

}  // namespace

const Policy& everything_saveable() {
  static const Policy policy("everything_saveable", [](const Facts&) { return Decision::keep; });
  return policy;
}

const Policy& nothing_saveable() {
  static const Policy policy("nothing_saveable", [](const Facts&) { return Decision::recompute; });
  return policy;
}

Policy keep_ops(std::vector<std::string> kept) {
  if (kept.empty())
    throw std::invalid_argument(
        "remat: keep_ops needs at least one operator name, for example \"mm\"");
  std::string label = "keep_ops(";
  for (const std::string& name : kept) {
    if (name.empty())
      throw std::invalid_argument("remat: keep_ops was given an empty operator name");
    label += (label.back() == '(' ? "" : ", ") + name;
  }
  auto rule = [kept = std::move(kept)](const Facts& facts) {
    const bool found = std::any_of(kept.begin(), kept.end(),
                                   [&](const auto& name) { return names(name, facts.op); });
    return found ? Decision::keep : Decision::recompute;
  };
  return {label + ")", std::move(rule)};
}

const Policy& by_name(std::string_view name) {
  for (const Policy* policy : {&everything_saveable(), &nothing_saveable()}) {
    if (policy->name() == name) return *policy;
  }
  throw std::invalid_argument(
      "remat: there is no policy named \"" + std::string(name) +
      "\"; the names are everything_saveable and nothing_saveable, and keep_ops(...) keeps "
      "the results of operators you list");
}

}  // namespace remat::policy
