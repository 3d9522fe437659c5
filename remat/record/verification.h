#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "remat/record/fingerprint.h"
#include "remat/tape/ids.h"

namespace remat::record {

/// Verify mode: what the forward pass made and read, to compare with all that a replay reads and
/// makes. Changes nothing of what is recorded, kept or recomputed, so that it says whether that is
/// right. The spot guard compares 64 elements of what autograd gets; this compares every element of
/// every value on the way there, and so knows where and why the first difference arose.
class Verification {
 public:
  /// An operator made the value, shown by `tensor`.
  void note_made(tape::ValueId value, const at::Tensor& tensor, const std::string& op);
  /// An operator wrote `tensor`, and so made the value of what the buffer held before.
  void note_written(tape::ValueId value, tape::ValueId before, const at::Tensor& tensor,
                    const std::string& op);
  /// An operator is the first to read the parameter.
  void note_parameter(tape::ValueId value, const at::Tensor& parameter);
  /// An operator is the first to read the value, which was made outside.
  void note_source(tape::ValueId value, const at::Tensor& tensor);
  /// The operator that is about to run, and will make values, reads this one from `storage`.
  void note_read(tape::ValueId value, const c10::Storage& storage, const std::string& op);
  /// Autograd saves the value, which lies in `storage`.
  void note_saved(tape::SavedId saved, tape::ValueId value, const c10::Storage& storage);
  void begin_operator() { suspicion_.clear(); }

  /// A replay found the value without running its operator. Throws c10::Error where it changed.
  void check_found(tape::ValueId value, const c10::Storage& storage) const;
  /// A replay ran the operator `op`, with operands that were right. Throws c10::Error where the
  /// value is not what the forward pass made.
  void check_made(tape::ValueId value, const c10::Storage& storage) const;
  /// Autograd gets a saved value. Throws c10::Error where it was not this that autograd saved.
  void check_saved(tape::SavedId saved, tape::ValueId value, const c10::Storage& storage) const;

  void renumber(const std::vector<tape::ValueId>& values);

 private:
  struct Noted {
    Fingerprint print;
    std::string op;  ///< that made it; empty: made outside
    std::string module;
    std::string suspicion;  ///< an operand that changed unseen before the operator read it
  };

  [[nodiscard]] const Noted* find(tape::ValueId value) const;
  static std::optional<std::string> difference(const Noted& noted, const c10::Storage& storage);
  static std::string name_of(const Noted& noted);
  static std::string unseen_write(const Noted& noted, const std::string& where,
                                  const std::string& before);

  std::vector<std::unique_ptr<Noted>> noted_;  ///< by ValueId
  std::map<tape::SavedId, std::string> suspicious_;
  std::string suspicion_;  ///< of the operator that is about to run
};

/// True iff regions that open on this thread verify by themselves.
bool verifies_by_default();
/// Regions that are opened on this thread while it lives verify what they recompute.
class VerifyScope {
 public:
  VerifyScope();
  ~VerifyScope();
  VerifyScope(const VerifyScope&) = delete;
  VerifyScope& operator=(const VerifyScope&) = delete;
};

/// Names the module that runs on this thread, for messages of verify mode.
void set_module_name(std::string name);

}  // namespace remat::record
