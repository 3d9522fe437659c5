#pragma once

#include <string_view>

/// Patterns of names, as of files: `*` stands for any characters, `?` for one.
namespace remat::policy {

/// True iff the pattern stands for all of `text`.
bool matches(std::string_view pattern, std::string_view text);

/// True iff the pattern names an operator: "aten::add.Tensor" is named by itself, "aten::add",
/// "add.Tensor" and "add".
bool matches_operator(std::string_view pattern, std::string_view op);

/// True iff the pattern names a module or one around it by its path or the end of its path:
/// "layers.3.mlp.up" is named by itself, "layers.*.mlp", "mlp", "up" and "*.mlp.*".
bool matches_module(std::string_view pattern, std::string_view path);

}  // namespace remat::policy
