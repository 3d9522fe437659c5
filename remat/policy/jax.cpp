#include "remat/policy/jax.h"

#include <stdexcept>

#include "remat/policy/rules.h"

namespace remat::policy {

// The JAX functions take any number of names, none included.

Policy save_anything_except_these_names(std::vector<std::string> names) {
  if (names.empty()) return everything_saveable();
  return everything_saveable() - policy::names(std::move(names));
}

Policy save_any_names_but_these(std::vector<std::string> names) {
  if (names.empty()) return policy::names({"*"});
  return policy::names({"*"}) - policy::names(std::move(names));
}

Policy save_only_these_names(std::vector<std::string> names) {
  if (names.empty()) return nothing_saveable();
  return policy::names(std::move(names));
}

Policy save_from_both_policies(const Policy& a, const Policy& b) { return a | b; }

void refuse_offload(std::string_view name) {
  std::string instead;
  if (name == "offload_dot_with_no_batch_dims") {
    instead = "dots_with_no_batch_dims_saveable keeps the same values where they are";
  } else if (name == "save_and_offload_only_these_names") {
    instead = "names(...) keeps the named values where they are";
  } else {
    return;
  }
  throw std::invalid_argument("remat: the policy " + std::string(name) +
                              " moves values to host memory until backward, and remat has no host "
                              "memory tier yet: " +
                              instead + ", and leaving it out recomputes them");
}

}  // namespace remat::policy
