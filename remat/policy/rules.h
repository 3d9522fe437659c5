#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "remat/policy/policy.h"

/// What policies are made of. Each keeps the values that it names and no other; docs/policies.md
/// has them in one table. Lists of patterns (pattern.h) keep what any of them names, and throw
/// std::invalid_argument where the list or a pattern is empty.
namespace remat::policy {

/// Results of matrix products and convolutions: dear to compute, few beside the rest.
/// (jax.checkpoint_policies.dots_saveable, checkpoint_dots)
const Policy& dots_saveable();

/// Results of matrix products that are not batched: of a transformer the projections, not the
/// attention's T x T products. A batched product of one matrix counts as not batched.
/// (jax.checkpoint_policies.dots_with_no_batch_dims_saveable, checkpoint_dots_with_no_batch_dims)
const Policy& dots_with_no_batch_dims_saveable();

/// Results of the named operators. A pattern may leave out the namespace ("mm" is "aten::mm") and
/// the overload ("add" is every add). Operators are named as a tape prints them: linear is addmm.
Policy keep_ops(std::vector<std::string> patterns);

/// Values that remat::name() gave one of these names.
Policy names(std::vector<std::string> patterns);

/// Values that were made while one of these modules ran. A region that nobody told which module
/// runs (Region::set_module) is an error, std::invalid_argument, when it closes.
Policy modules(std::vector<std::string> patterns);

/// Values whose buffer has at least, or at most, that many bytes. Throws std::invalid_argument for
/// fewer than 0.
Policy at_least(int64_t bytes);
Policy at_most(int64_t bytes);

/// Results of the k-th, 2k-th, ... call of each operator, counted in each region: with
/// keep_ops({"mm"}) & every(2) every second mm. Throws std::invalid_argument for less than 1.
Policy every(int64_t k);

}  // namespace remat::policy
