#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "remat/tape/geometry.h"

/// What to do with a value that an operator made: decided by small pure functions of the operator's
/// facts.
namespace remat::policy {

/// What a policy may know of a value. Views: they hold while the policy is asked.
struct Facts {
  std::string_view
      op;  ///< "aten::mm", the overload behind a dot where there is one: "aten::add.Tensor"
  int64_t bytes = 0;    ///< of the value's buffer
  uint32_t index = 0;   ///< operators recorded before it since the outermost region opened
  uint32_t result = 0;  ///< which of the values that the operator made, those it wrote first
  const tape::Geometry* geometry = nullptr;  ///< dtype and sizes of that result; null: not known
  uint32_t call = 0;  ///< which call of this operator in its region, from 1; 0 unless Wants::call
  /// Path of the module that runs, "" for the outermost. Nothing: nobody said (Region::set_module).
  std::optional<std::string_view> module = std::nullopt;
  std::span<const std::string> names = {};  ///< what remat::name() called the value so far
};

enum class Decision : uint8_t {
  recompute,  ///< drop the value, run the operator again when backward or a replay wants it
  keep,       ///< hold the value, if backward or a replay wants it
};

/// The facts that cost something to have and are gathered only for policies that want them.
struct Wants {
  bool call = false;
  bool module = false;
  bool names = false;  ///< the policy is asked again each time the value is given a name

  static constexpr Wants everything() { return {true, true, true}; }
  friend constexpr Wants operator|(Wants a, Wants b) {
    return {a.call || b.call, a.module || b.module, a.names || b.names};
  }
};

/// A named pure function. Cheap to copy; the same facts always give the same decision.
///
///     dots_saveable() | names({"attn_out"})      keeps what either keeps
///     keep_ops({"mm"}) & at_most(1 << 20)        keeps what both keep
///     everything_saveable() - keep_ops({"exp"})  keeps what the first keeps and the second does
///     not
///
/// The name of a policy of this room is an expression that parse() reads (parse.h).
class Policy {
 public:
  using Rule = std::function<Decision(const Facts&)>;

  Policy(std::string name, Rule rule, Wants wants = Wants::everything())
      : Policy(std::move(name), std::move(rule), wants, Binding::whole) {}

  [[nodiscard]] const std::string& name() const { return definition_->name; }
  [[nodiscard]] Decision operator()(const Facts& facts) const { return definition_->rule(facts); }
  [[nodiscard]] Wants wants() const { return definition_->wants; }

  friend Policy operator&(const Policy& a, const Policy& b);
  friend Policy operator|(const Policy& a, const Policy& b);
  friend Policy operator-(const Policy& a, const Policy& b);

 private:
  /// How tightly the name's outermost operator binds, loosest first: as in C++ and Python.
  enum class Binding : uint8_t { either, both, minus, whole };
  struct Definition {
    std::string name;
    Rule rule;
    Wants wants;
    Binding binding;
  };

  Policy(std::string name, Rule rule, Wants wants, Binding binding)
      : definition_(std::make_shared<const Definition>(
            Definition{std::move(name), std::move(rule), wants, binding})) {}
  /// The name as an operand of an operator that binds as tightly as `binding`.
  [[nodiscard]] std::string operand(Binding binding) const;

  std::shared_ptr<const Definition> definition_;
};

/// Keeps every value: as without remat. (jax.checkpoint_policies.everything_saveable)
const Policy& everything_saveable();

/// Keeps no value; only what the region was given is held. The default.
/// (jax.checkpoint_policies.nothing_saveable)
const Policy& nothing_saveable();

}  // namespace remat::policy
