#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "remat/tape/slice.h"
#include "remat/tape/tape.h"

namespace remat::testing {

/// A tape written as text, so that a test shows the dataflow it is about. Statements stand between
/// semicolons or on lines of their own:
///
///     b = f(a)           the operator f reads a and makes b; a name met for the first time is a
///     source b, c = f(a)        two results f(a!)              f changes a in place: from here on
///     `a` is the new value, `a.0` the first one f(&a)              f overwrites all of a and reads
///     none of it b = f(a, _)        an argument whose content does not matter b = f(a, "p=0.5")
///     the arguments that are not tensors b[64] = f(a)       64 floats; where nothing is said it is
///     4 b = f(a) @2        in region 2 b = f(a) draw 0    draws from a generator region 1 in 0
///     opens region 1; region 0 is there from the start save b @1          autograd saves b while
///     region 1 is the innermost one
class TapeLiteral {
 public:
  explicit TapeLiteral(std::string_view text);

  tape::Tape tape;

  /// The value a name stands for: "b" the latest, "b.0" the first. Throws where there is none.
  [[nodiscard]] tape::ValueId value(std::string_view name) const;
  /// The first saved tensor that is this value.
  [[nodiscard]] tape::SavedId saved(std::string_view name) const;

  /// Values as names, "a b.0", and what answers for exactly those.
  [[nodiscard]] std::vector<tape::ValueId> values(std::string_view names) const;
  [[nodiscard]] tape::AtHand at_hand(std::string_view names) const;

  /// The reverse, for what a test expects: operators in the order given, values in the order made.
  [[nodiscard]] std::string ops(const std::vector<tape::NodeId>& nodes) const;
  [[nodiscard]] std::string names(const std::vector<bool>& flags) const;

 private:
  struct Operands;

  void add(const std::string& statement);
  void add_node(const std::string& results, const std::string& op, const std::string& arguments,
                tape::RegionId region, tape::DrawId draw);
  void add_argument(const std::string& argument, Operands& operands);
  void add_result(std::string name, Operands& operands);
  tape::ValueId read(const std::string& name);

  std::map<std::string, std::vector<tape::ValueId>, std::less<>> versions_;
};

}  // namespace remat::testing
