#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "remat/policy/policy.h"

namespace remat::policy {

/// The policy that a text describes, the inverse of Policy::name():
///
///     dots_saveable | names(attn_out, "mlp out")
///     everything_saveable - keep_ops(aten::exp, *softmax*) & at_least(64KiB)
///
/// A policy is a name, with what it takes in brackets: patterns, a size, a number, or policies.
/// Operators bind as in C++ and Python: `-` tighter than `&`, `&` tighter than `|`; brackets group.
/// Throws std::invalid_argument, with the column and what could stand there.
Policy parse(std::string_view text);

/// The names that parse() knows, in the order of docs/policies.md.
std::vector<std::string> known();

}  // namespace remat::policy
