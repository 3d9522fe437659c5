#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "remat/policy/policy.h"
#include "remat/record/view.h"
#include "remat/tape/ids.h"

namespace remat::record {

/// A version counter that tensors of a buffer show, and the count it had when last looked at.
/// Holding a counter does not hold the storage.
struct Witness {
  c10::VariableVersion counter;
  uint32_t expected = 0;
};

/// Counts in-place writes of those who were given a storage: a backward may use what it saved as
/// scratch.
class WriteWatch {
 public:
  /// The counter for the tensor that is given out.
  const c10::VariableVersion& counter() {
    if (!counter_.enabled()) counter_ = c10::VariableVersion(0);
    return counter_;
  }
  [[nodiscard]] bool saw_a_write() const {
    return counter_.enabled() && counter_.current_version() != 0;
  }

 private:
  c10::VariableVersion counter_;
};

/// What a buffer of the tape is in this process: a storage, weakly held so that recording frees
/// nothing later than plain training does, and yet its address is not given to another while the
/// tape knows it.
struct Memory {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  const void* data = nullptr;
  size_t bytes = 0;
  c10::SmallVector<Witness, 1> witnesses;
  tape::ValueId current = tape::kNone;  ///< the value that the storage holds now
  bool met = false;  ///< the storage came from outside; no operator of the region made it
  /// The value that autograd keeps as it is, so that plain training, too, forbids to change it.
  tape::ValueId saved = tape::kNone;
  std::weak_ptr<void> saved_by;  ///< lives as long as a handle that keeps it
  bool resizable = true;         ///< the storage was, when it was first seen
  /// Its bytes were given to numpy, which makes a storage unresizable, or to DLPack, or come from
  /// there: what is written through an array shows in no counter.
  bool exposed = false;
  /// The operator that wrote it last runs in a dispatch mode, which lets autograd count the write
  /// when the operator itself has ended.
  bool count_is_due = false;
  /// Another buffer in the same storage: parameters that share one are a buffer each.
  tape::BufferId next = tape::kNone;
  /// Of a parameter: its bytes in the storage.
  Span window = {0, SIZE_MAX};

  /// Set for parameters, which are known by tensor: their storage may be swapped (FSDP, ZeRO-3,
  /// `.data = `).
  c10::weak_intrusive_ptr<c10::TensorImpl> parameter{c10::intrusive_ptr<c10::TensorImpl>()};

  /// What a factory's result held when it was made, or a large tensor of numpy's when it was first
  /// read. A user may since have written it through a pointer.
  struct Birth {
    tape::ValueId value = tape::kNone;
    uint64_t hash = 0;  ///< of all bytes
  };
  std::unique_ptr<Birth> birth;

  /// What the policy was told of `current`, where it is to be asked again once the value has a
  /// name. Null where no policy wants names, and for a value whose being kept is no policy's
  /// decision.
  struct Told {
    policy::Facts facts;
    std::shared_ptr<const std::string> module;  ///< what facts.module shows
    std::vector<std::string> names;             ///< what facts.names shows
  };
  std::unique_ptr<Told> told;

  explicit Memory(c10::weak_intrusive_ptr<c10::StorageImpl> at) : storage(std::move(at)) {}

  [[nodiscard]] bool is_parameter() const { return parameter._unsafe_get_target() != nullptr; }
  /// True iff it is a parameter that training updates. REQUIRES: the parameter lives.
  [[nodiscard]] bool is_trained() const {
    return is_parameter() && parameter._unsafe_get_target()->requires_grad();
  }

  /// True iff autograd keeps the value as it is, and still wants it.
  [[nodiscard]] bool is_saved(tape::ValueId value) const {
    return saved == value && !saved_by.expired();
  }
  /// True iff the storage lies where it did and no counter moved.
  [[nodiscard]] bool is_intact(const c10::StorageImpl& at) const;
  /// True iff no known counter moved.
  [[nodiscard]] bool counters_hold() const;
  /// Takes the present address, size and counts as what is to be expected.
  void refresh(const c10::StorageImpl& at);
  /// Forgets a storage that is dead, of which a weak reference keeps 100 bytes.
  void let_go();
  /// Adds the tensor's counter where it is a new one. Returns false iff a known one moved.
  bool witness(const at::Tensor& tensor);
  /// A counter that is watched here: whoever is given the bytes is to count its writes by it.
  const c10::VariableVersion& watched_counter();
};

}  // namespace remat::record
