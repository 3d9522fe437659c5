#include "remat/policy/policy.h"

namespace remat::policy {

std::string Policy::operand(Binding binding) const {
  return definition_->binding < binding ? "(" + name() + ")" : name();
}

Policy operator|(const Policy& a, const Policy& b) {
  using Binding = Policy::Binding;
  return {
      a.operand(Binding::either) + " | " + b.operand(Binding::either),
      [a, b](const Facts& facts) { return a(facts) == Decision::keep ? Decision::keep : b(facts); },
      a.wants() | b.wants(), Binding::either};
}

Policy operator&(const Policy& a, const Policy& b) {
  using Binding = Policy::Binding;
  return {a.operand(Binding::both) + " & " + b.operand(Binding::both),
          [a, b](const Facts& facts) {
            return a(facts) == Decision::keep ? b(facts) : Decision::recompute;
          },
          a.wants() | b.wants(), Binding::both};
}

Policy operator-(const Policy& a, const Policy& b) {
  using Binding = Policy::Binding;
  auto rule = [a, b](const Facts& facts) {
    const bool keeps = a(facts) == Decision::keep && b(facts) != Decision::keep;
    return keeps ? Decision::keep : Decision::recompute;
  };
  // a - b - c is (a - b) - c: the right operand must bind tighter.
  return {a.operand(Binding::minus) + " - " + b.operand(Binding::whole), std::move(rule),
          a.wants() | b.wants(), Binding::minus};
}

const Policy& everything_saveable() {
  static const Policy policy("everything_saveable", [](const Facts&) { return Decision::keep; },
                             {});
  return policy;
}

const Policy& nothing_saveable() {
  static const Policy policy("nothing_saveable", [](const Facts&) { return Decision::recompute; },
                             {});
  return policy;
}

}  // namespace remat::policy
