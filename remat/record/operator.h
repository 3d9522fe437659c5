#pragma once

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

namespace remat::record {

/// What the recorder knows of one operator overload. Built once and kept for the life of the
/// process.
struct Operator {
  /// How much its schema is believed.
  enum class Trust : uint8_t {
    aten,      ///< alias annotations hold, but for the corrections in operator.cpp; declared
               ///< replayable: they hold
    kept,      ///< another namespace: results are kept, arguments are compared before and after
    distrust,  ///< c10d and kin write arguments that their schema calls inputs: every argument
               ///< counts as written
  };

  struct Argument {
    std::string name;
    bool written = false;
    bool overwritten = false;  ///< where written: all of it, reading none of it first
    bool generator = false;
    /// A running statistic that a training-mode norm updates: its result does not depend on it, and
    /// the update must not happen twice, so a replay gives it scratch.
    bool statistic = false;
  };

  c10::OperatorHandle handle;
  std::string name;      ///< "aten::add.Tensor"
  const char* base;      ///< the schema's "aten::add"
  const char* overload;  ///< the schema's "Tensor"
  std::vector<Argument> arguments;
  size_t returns = 0;
  std::atomic<Trust> trust = Trust::aten;  ///< declare_replayable changes it
  bool view = false;  ///< returns views of its arguments and writes nothing: geometry, not a node
  bool foreign = false;    ///< of another namespace than aten
  bool reshapes = false;   ///< a view that is called in place: counts as a write, and is none
  bool undefined = false;  ///< empty and kin: results hold whatever the memory held
  bool factory =
      false;  ///< zeros, clone and kin: users fill the result through pointers nobody can watch
  bool seeded = false;   ///< draws from the default generator unless given one
  bool resizes = false;  ///< resize_ and set_: the storage itself changes
  int training = -1;     ///< index of the argument that says whether a norm updates its statistics
  bool pointwise = false;          ///< multiplies no matrices
  bool unordered_on_cuda = false;  ///< its bits differ from run to run on CUDA by default
  bool unsteady = false;           ///< its bits differ from call to call: results are kept
  bool writes = false;             ///< any argument is written

  /// Bit i: result i may differ from run to run in bytes that nobody reads.
  uint32_t unrepeatable_results = 0;

  explicit Operator(const c10::OperatorHandle& found);

  /// True iff the call runs other operators in its place on this device (CompositeImplicitAutograd
  /// without a kernel of its own), or has a kernel of its own above autograd that a replay below
  /// autograd would not reach.
  [[nodiscard]] bool is_composite(c10::DeviceType device) const;
  /// True iff autocast would call the operator again with cast arguments.
  [[nodiscard]] bool is_autocast(c10::DeviceType device) const;

  /// The operator of an event, or nullptr where the event is none (a Python autograd.Function).
  static const Operator* of(const at::RecordFunction& event);

  /// Declares that the operator "ns::name", every overload, is a function of its arguments, writes
  /// what its schema says and draws no random numbers unless it is tagged or takes a generator: it
  /// is recorded and recomputed as those of aten are. Throws c10::Error where the name has no
  /// namespace or the operator needs no declaration.
  static void declare_replayable(const std::string& name);

 private:
  enum : uint8_t { kUnasked, kNo, kYes };
  // CPU, any other device: asked once each; threads that ask at the same time find the same.
  mutable std::array<std::atomic<uint8_t>, 2> composite_ = {kUnasked, kUnasked};
  mutable std::array<std::atomic<uint8_t>, 2> autocast_ = {kUnasked, kUnasked};

  void trust_as_aten();
};

}  // namespace remat::record
