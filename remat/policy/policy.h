#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// What to do with a value that an operator made: decided by small pure functions of the operator's
/// facts.
namespace remat::policy {

/// What a policy may know of an operator.
struct Facts {
  std::string_view
      op;  ///< "aten::mm", the overload behind a dot where there is one: "aten::add.Tensor"
  int64_t bytes = 0;    ///< of the result's buffer
  uint32_t index = 0;   ///< operators recorded before it since the outermost region opened
  uint32_t result = 0;  ///< which of the values that the operator made, those it wrote first
};

enum class Decision : uint8_t {
  recompute,  ///< drop the value, run the operator again when backward or a replay wants it
  keep,       ///< hold the value, if backward or a replay wants it
};

/// A named pure function. Cheap to copy; the same facts always give the same decision.
class Policy {
 public:
  using Rule = std::function<Decision(const Facts&)>;

  Policy(std::string name, Rule rule)
      : definition_(std::make_shared<const Definition>(std::move(name), std::move(rule))) {}

  [[nodiscard]] const std::string& name() const { return definition_->name; }
  [[nodiscard]] Decision operator()(const Facts& facts) const { return definition_->rule(facts); }

 private:
  struct Definition {
    std::string name;
    Rule rule;
    Definition(std::string called, Rule decides)
        : name(std::move(called)), rule(std::move(decides)) {}
  };
  std::shared_ptr<const Definition> definition_;
};

/// Keeps every value: as without remat. (jax.checkpoint_policies.everything_saveable)
const Policy& everything_saveable();

/// Keeps no value; only what the region was given is held. The default.
/// (jax.checkpoint_policies.nothing_saveable)
const Policy& nothing_saveable();

/// Keeps the results of the named operators. A name may leave out the namespace ("mm" is
/// "aten::mm") and the overload ("add" is every add). Throws std::invalid_argument on an empty list
/// or name.
Policy keep_ops(std::vector<std::string> names);

/// The policy of that name. Throws std::invalid_argument, listing the names there are.
const Policy& by_name(std::string_view name);

}  // namespace remat::policy
