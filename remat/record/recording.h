#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include "remat/record/memory.h"
#include "remat/record/profile.h"
#include "remat/record/randomness.h"
#include "remat/record/shared_copies.h"
#include "remat/record/verification.h"
#include "remat/tape/slice.h"
#include "remat/tape/tape.h"

namespace remat::record {

/// A value that a recording holds strongly.
struct Held {
  enum class Why : uint8_t {
    source,  ///< made outside: the storage itself, or the parameter
    copy,    ///< made outside and small, or about to be overwritten: a private copy
    policy,  ///< a policy keeps it
  };
  Why why = Why::source;
  /// By autograd as well, while this lives: in plain training, too, nobody may change it then.
  std::weak_ptr<void> saved_by;
  bool kept_for_now = false;  ///< by the Balance, until recomputing pays
  /// Of a parameter: an operator that autograd differentiates read it, so that an optimizer steps
  /// it only behind a backward pass.
  bool read_with_grad = false;
  bool may_be_given = false;  ///< to a backward, which may write what it is given
  Span shown;                 ///< of a copy and of what will be one: the bytes that operators read
  c10::Storage storage;
  WriteWatch watch;  ///< of a copy
  /// Of a copy of a source that may turn out to be unneeded: what it was made of.
  c10::weak_intrusive_ptr<c10::StorageImpl> original{c10::intrusive_ptr<c10::StorageImpl>()};
  /// Where hooks of the user's around the region took the value; `storage` is then empty. They are
  /// asked for it once.
  std::unique_ptr<torch::autograd::SavedVariableHooks> packed;
  at::Tensor parameter;  ///< defined iff the value is a parameter's, whose storage may be swapped

  /// How a value lay when it was first read, and a hash of what was there.
  struct Seen {
    tape::Geometry geometry;
    uint64_t hash = 0;      ///< to notice writes that no counter shows; 0: not known
    uintptr_t address = 0;  ///< of the storage: bits of some kernels depend on it modulo 64
    uint32_t version = 0;   ///< of a parameter
  };
  /// Of parameters, of large sources and of what hooks took.
  std::optional<Seen> seen;
};

/// What comes from outside in a storage of that size is copied when it is first read, so that a
/// staging buffer may be refilled before backward, as it may in plain training.
bool is_small(const c10::Storage& storage);
bool is_small(const Held& held);
/// True iff it is a parameter's that an optimizer steps.
bool is_trained(const Held& held);

/// What is held of a value of which this is a copy, with that part of it.
std::unique_ptr<Held> held_copy(c10::Storage storage, Span shown);

/// What autograd did with a saved tensor's handle since.
struct SavedState {
  uint32_t pack = 0;  ///< values that autograd saved before this one, kept ones included
  std::atomic<bool> released{false};  ///< the handle is gone; written without a lock
  /// The tensor object that autograd saved, while the program has it.
  c10::weak_intrusive_ptr<c10::TensorImpl> shown{c10::intrusive_ptr<c10::TensorImpl>()};
  int64_t served_in = kNever;  ///< the graph task that last asked for it

  static constexpr int64_t kNever = -2;
};

class Recording;

/// A storage for backward. Others may go on using it.
struct Given {
  c10::Storage storage;
  c10::VariableVersion
      counter;  ///< by which they see that it was written; disabled: there are none
};

/// Gives the bytes of saved tensors back. Declared here, since handles ask for it; implemented by
/// replay.
class Source {
 public:
  virtual ~Source() = default;
  /// The storage of the saved tensor's value as the forward pass saw it.
  virtual Given fetch(Recording& recording, tape::SavedId saved) = 0;
  /// The handle of a saved tensor is gone. Called with no lock held; never waits for one.
  virtual void forget(Recording& recording, tape::SavedId saved) = 0;
  /// Value ids changed.
  virtual void renumber(const std::vector<tape::ValueId>& values) = 0;
  [[nodiscard]] virtual int64_t cached_bytes() const = 0;
};

/// A tape and what its ids stand for in this process. Shared by the open region and the handles of
/// its saved tensors; the last of them frees it.
class Recording : public std::enable_shared_from_this<Recording> {
 public:
  Recording();
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  tape::Tape tape;
  std::vector<Memory> memories;             ///< by BufferId
  std::vector<std::unique_ptr<Held>> held;  ///< by ValueId, as long as the largest that is held
  std::vector<Draw> draws;                  ///< by DrawId
  std::deque<SavedState> saved;             ///< by SavedId
  bool open = true;                         ///< a region still records
  bool hooked = false;  ///< hooks of the user's were there when it began: they get what it keeps
  /// Nothing is pruned: a NodeId is the position at which the operator was recorded.
  bool whole = false;
  std::unique_ptr<Profile> profile;            ///< where it is wanted
  std::unique_ptr<Verification> verification;  ///< in verify mode
  uint32_t packs = 0;                          ///< values made here that autograd saved so far
  /// Called once, without the lock, before backward asks for its first saved tensor. Of whole
  /// recordings only.
  std::function<void()> on_backward;
  std::unique_ptr<Source> source;

  /// Guards everything above but `SavedState::released`. No tensor may die and no Python may run
  /// while it is held: both can wait for a thread that waits for this lock. Recursive, since a
  /// replayed operator may ask for a saved tensor of the same tape.
  std::recursive_mutex mutex;

  /// Locks `mutex`, see lock_patiently().
  [[nodiscard]] std::unique_lock<std::recursive_mutex> lock();

  /// Calls on_backward where that is still to be done.
  void announce_backward();

  /// What is held of the value, or nullptr.
  [[nodiscard]] Held* find_held(tape::ValueId value) const {
    return value < held.size() ? held[value].get() : nullptr;
  }
  void hold(tape::ValueId value, Held entry);
  /// The storage of a held value, of which a copy is held from here on; nothing where it is not as
  /// it was.
  std::optional<Given> give_away(tape::ValueId value);
  /// Whether a copy or a policy's value is held, as it was made: it need not be made again.
  [[nodiscard]] bool is_kept(tape::ValueId value) const;

  /// The storage that holds the value now without running anything: a held one, or the original if
  /// it lives and nobody changed it. Nothing otherwise. Throws where the value can only come from
  /// outside and was changed there.
  std::optional<c10::Storage> at_hand(tape::ValueId value);
  /// The counter for whoever is given the storage that is at hand.
  const c10::VariableVersion& counter_of(tape::ValueId value);
  /// Like at_hand, but of the original only.
  std::optional<c10::Storage> original(tape::ValueId value);
  /// True iff hooks of the user's have the value: they are called to have it at hand.
  [[nodiscard]] bool is_packed(tape::ValueId value) const;
  /// True iff the value is a parameter's, held as the tensor.
  [[nodiscard]] bool is_parameter(tape::ValueId value) const;
  /// True iff the value is a parameter's that has not its bytes now: it is sharded or was moved
  /// away.
  [[nodiscard]] bool is_absent(tape::ValueId value) const;
  /// Has such a parameter filled; its bytes are there until the returned object dies. Throws where
  /// nobody fills it.
  [[nodiscard]] std::shared_ptr<void> gather(tape::ValueId value) const;

  /// Drops nodes and held values that no pending saved tensor and none of `roots` depends on. What
  /// is to be freed is moved to `freed`, for the caller to destroy without the lock.
  /// Returns what ids became; nothing where they stayed.
  std::optional<tape::Tape::Renumbering> prune(const std::vector<tape::ValueId>& roots,
                                               std::vector<std::unique_ptr<Held>>& freed);

  /// Copies the small values that are held, cannot be made again, and that the program has as well:
  /// unless autograd saved them, plain training lets it change them after the region. Of a source
  /// the part that was read, one copy for all regions that read the same. What needs no copy is
  /// held as it is. What was held is moved to `freed`.
  void copy_shared(SharedCopies& copies, std::vector<std::unique_ptr<Held>>& freed);

  /// A backward pass has ended, and an optimizer may step next: copies the small trained parameters
  /// that recordings read of which backward is yet to come (pipelined micro-batches), and that
  /// autograd does not keep.
  static void copy_before_a_step();

  /// Autograd keeps the source: holds it as it is instead of a copy. What was held is returned.
  std::unique_ptr<Held> let_go_of_copy(tape::ValueId value);

  /// Gives what is held to the user's hooks: all but parameters, each value once. `hooks` makes a
  /// pair of them. The originals are moved to `freed`. Called without the lock; throws what they
  /// throw.
  void pack(const std::function<std::unique_ptr<torch::autograd::SavedVariableHooks>()>& hooks,
            std::vector<std::unique_ptr<Held>>& freed);

  /// Drops the held values that `wanted` does not depend on, where `at_hand` need not be made
  /// again.
  void drop_unneeded(std::span<const tape::ValueId> wanted, const tape::AtHand& at_hand,
                     std::vector<std::unique_ptr<Held>>& freed);

  /// Called when a handle is gone: lets go of held values as backward gets done with them, each
  /// time a quarter of the handles has gone since the last time. The caller holds the lock and
  /// destroys `freed` without it.
  void let_go(std::vector<std::unique_ptr<Held>>& freed);

  /// Bytes of storages held because of this recording: sources, copies, kept values and what
  /// replays hold.
  [[nodiscard]] int64_t held_bytes();
  /// The same of all recordings that are alive.
  static int64_t total_held_bytes();

 private:
  [[nodiscard]] std::vector<tape::ValueId> unreleased() const;
  void keep_only(const tape::Tape::Renumbering& left, std::vector<std::unique_ptr<Held>>& freed);
  void drop_unused_draws();
  [[nodiscard]] std::unique_ptr<Held> copy_if_it_may_change(tape::ValueId value,
                                                            SharedCopies& copies) const;
  /// What is held in place of a copy of a source that nobody may change; null where it stays.
  [[nodiscard]] std::unique_ptr<Held> original_of_copy(tape::ValueId value) const;
  [[nodiscard]] std::unique_ptr<Held> copy_of_parameter(tape::ValueId value,
                                                        SharedCopies& copies) const;
  [[nodiscard]] bool is_trained(tape::ValueId value) const;
  static std::vector<std::shared_ptr<Recording>> all();
  void let_go_of_dead_storages();
  void let_go_of_dead_tensors();
  std::optional<c10::Storage> held_storage(tape::ValueId value, Held& entry);
  [[nodiscard]] bool is_intact(tape::ValueId value, const Held& entry) const;
  static void unpack(Held& entry);
  c10::Storage parameter_storage(tape::ValueId value, const Held& entry) const;
  [[noreturn]] void report_changed(tape::ValueId value) const;

  Recording* previous_ = nullptr;  // in the list of recordings, under its mutex
  Recording* next_ = nullptr;
  size_t released_ =
      0;  ///< handles that went, those that nobody could count at the moment left out
  size_t released_since_ = 0;  ///< handles that went since held values were last looked through
};

}  // namespace remat::record
