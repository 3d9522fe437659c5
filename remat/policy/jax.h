#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "remat/policy/policy.h"

/// The rest of jax.checkpoint_policies by its names and documented meaning
/// (docs.jax.dev, "jax.checkpoint_policies"), made of what rules.h has. Names may be patterns.
namespace remat::policy {

/// Every value, named or not, but those with one of these names: everything_saveable - names(...).
Policy save_anything_except_these_names(std::vector<std::string> names);

/// Named values only, but those with one of these names: names(*) - names(...).
Policy save_any_names_but_these(std::vector<std::string> names);

/// Values with one of these names only: names(...).
Policy save_only_these_names(std::vector<std::string> names);

/// What either keeps: a | b.
Policy save_from_both_policies(const Policy& a, const Policy& b);

/// offload_dot_with_no_batch_dims and save_and_offload_only_these_names move values to host memory,
/// which remat does not do yet. Throws std::invalid_argument, which says what to use instead, if
/// `name` is one of them.
void refuse_offload(std::string_view name);

}  // namespace remat::policy
