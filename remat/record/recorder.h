#pragma once

#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/record_function.h>
#include <c10/util/SmallVector.h>

#include "remat/policy/policy.h"
#include "remat/record/balance.h"
#include "remat/record/call.h"
#include "remat/record/memories.h"
#include "remat/record/recording.h"
#include "remat/record/stats.h"

namespace remat::record {

/// Where a tensor that autograd saves lies on the tape.
struct Location {
  tape::SavedId saved = tape::kNone;  ///< kNone: keep the tensor, for this reason
  /// Reason::policy with a `saved`: the recording keeps the value, and may yet drop it.
  Reason reason = Reason::unknown;
  SavedState* state = nullptr;   ///< where it is recomputed, to be told that the handle is gone
  uint64_t spot = 0;             ///< of the elements, where it is recomputed
  tape::Geometry geometry;       ///< likewise
  std::shared_ptr<void> wanted;  ///< see Memory::saved_by
  bool as_object = false;        ///< the handle keeps the tensor object as well
  bool cloned = false;           ///< autograd saved a clone of that, which may lie otherwise

  static Location kept(Reason why) {
    Location location;
    location.reason = why;
    return location;
  }
};

/// A saved tensor that waits for the operator that saves it to end: autograd packs outputs before
/// the kernel has filled them.
class Packed {
 public:
  virtual ~Packed() = default;
  /// Called once, on the thread that packed.
  virtual void settle(Location location) = 0;
};

/// Records what one thread does while a region is open on it. One a thread, used again by its next
/// outermost region: most of what a small region costs is the making of containers.
class Recorder {
 public:
  Recorder() = default;
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The recorder of this thread, nullptr where no region is open.
  static Recorder* current();

  /// Begins to record this thread. Ends when the last region closes; the recorder can then start
  /// again.
  void start(std::shared_ptr<Recording> recording);

  /// Ends recording with whatever regions are open. `hooks`: of the user's around them.
  void stop(size_t hooks = 0);
  [[nodiscard]] bool is_this_thread() const { return std::this_thread::get_id() == thread_; }
  [[nodiscard]] bool is_abandoned() const { return abandoned_; }

  void open_region(const policy::Policy& policy);
  /// Closes the region that was the `depth`-th to open and cuts it (see RegionOptions::segments);
  /// with the last one recording ends. Throws c10::Error where a region inside is still open. On
  /// another thread it only says that nothing more is to be recorded.
  void close_region(size_t depth, size_t segments);
  [[nodiscard]] size_t open_regions() const { return regions_.size(); }
  /// How many saved_tensors_hooks of the user's were there when the innermost region opened. Those
  /// pushed since win over the region; these get what it keeps.
  [[nodiscard]] size_t hooks_around() const { return regions_.empty() ? 0 : regions_.back().hooks; }
  /// The path of the module that runs from here on, for policies that want it; of the `depth`-th
  /// region and those in it that know none.
  void set_module(size_t depth, std::string path);

  /// Gives a name to the value that the tensor shows and asks the policy about it again. Does
  /// nothing where no operator of the region made it. Throws what the policy throws.
  void name(const at::Tensor& tensor, const std::string& name);

  /// From here on, what operators make is fingerprinted and replays are compared with it.
  void verify();

  /// A backward pass inside the region was given this tensor for a saved value: what it computes
  /// from it reads that value.
  void note_given(const at::Tensor& tensor, tape::SavedId saved);

  /// Somebody was given a pointer to the tensor's bytes, and may write them unseen.
  void note_exposed(const at::Tensor& tensor);

  /// The Python autograd.Function of that name, which has just begun, is recorded by what it calls.
  void open_function(std::string_view name);

  /// Says where `tensor` lies, at once or, while an operator runs, when it has ended. The caller
  /// must call withdraw(packed) if `packed` dies before.
  void pack(Packed& packed, const at::Tensor& tensor);
  void withdraw(const Packed& packed);

  /// True iff a custom Function that is recorded as one step is running: what is saved now is saved
  /// by it.
  [[nodiscard]] bool is_in_function() const { return leaf_ == Leaf::opaque && op_ == nullptr; }

  /// Keeps everything from here on; the error is raised when the region closes.
  void fail(std::exception_ptr error);
  /// That error, which is then no longer kept here: one of Python's holds whole frames.
  [[nodiscard]] std::exception_ptr take_failure() { return std::exchange(failure_, nullptr); }

  [[nodiscard]] const std::shared_ptr<Recording>& recording() const { return recording_; }

  // Called by the observer.
  void begin(const at::RecordFunction& event);
  void end(const at::RecordFunction& event);

  /// No recording on this thread while it lives: replays, and what the recorder itself calls.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    bool was_;
  };

 private:
  enum class Leaf : uint8_t {
    none,      ///< no operator is running
    ignored,   ///< nothing of it is recorded: views, backward, after a failure
    recorded,  ///< an operator of which a node may be made
    opaque,  ///< a custom Function or operator: arguments are compared afterwards, results are kept
  };

  struct Read {
    tape::BufferId buffer;
    tape::ValueId value;
    at::Tensor source;  ///< defined where the value has no producer and may have to be held
    uint32_t version;   ///< the tensor's count before the call
  };
  struct Written {
    at::Tensor tensor;
    uint32_t read;
    bool overwritten;
    bool statistic;
    bool kept = false;  ///< a policy kept what it held, and keeps what takes its place
    std::unique_ptr<Held> parameter = nullptr;  ///< what was held before protect() took a copy
  };
  /// Another buffer over bytes that the operator writes: parameters may share a storage.
  struct Overlapped {
    tape::BufferId buffer;
    tape::ValueId value;
    bool overwritten;
    std::unique_ptr<Held> parameter;
  };
  struct Compared {
    at::Tensor tensor;
    uint64_t before;
    tape::ValueId value;
    std::unique_ptr<Held> copy;  ///< to be held for the value if it changes
  };
  struct Pending {
    Packed* packed;
    at::Tensor tensor;
    uint32_t version;
    /// What the running operator read and may be about to overwrite, where the tensor has its bytes
    /// or is autograd's copy of them.
    tape::ValueId before = tape::kNone;
    at::Tensor shown = {};  ///< what shows the value; another than `tensor` where that is a copy
    uint64_t spot = 0;      ///< of the tensor, then
  };
  struct Region {
    tape::RegionId id = tape::kOutermost;
    policy::Policy policy;
    std::shared_ptr<const std::string> module = nullptr;       ///< null: not known
    std::unordered_map<const Operator*, uint32_t> calls = {};  ///< where the policy wants them
    size_t hooks = 0;  ///< of the user's that were there when it opened
  };

  using Tensors = c10::SmallVector<at::Tensor, 2>;  ///< what an operator makes

  void begin_inside_opaque(const at::RecordFunction& event);
  void expect_counts();
  void leave_mode();

  // Which kind of leaf a call is.
  Leaf classify(const at::RecordFunction& event, const Operator* op,
                at::ArrayRef<c10::IValue> arguments);
  static bool is_transparent(const Operator& op, at::ArrayRef<c10::IValue> arguments);
  static bool is_for_a_mode();

  void begin_recorded(at::ArrayRef<c10::IValue> arguments);
  bool read_argument(const Operator::Argument& argument, bool trains, const at::Tensor& tensor);
  void begin_opaque(at::ArrayRef<c10::IValue> arguments);
  [[nodiscard]] uint64_t hash_for_comparison(const at::Tensor& tensor) const;
  [[nodiscard]] std::unique_ptr<Held> copy_of_source(tape::ValueId value) const;
  [[nodiscard]] bool is_read_too(const Written& written) const;
  void protect(Written& written);
  void protect_overlapped(const Written& written);
  std::unique_ptr<Held> protect(tape::ValueId value, const c10::Storage& storage, bool overwritten);
  bool keep_readers(tape::ValueId source);
  void protect_from_unrecorded(const Operator& op, at::ArrayRef<c10::IValue> arguments);

  void end_recorded(const at::RecordFunction& event);
  tape::NodeId record(const at::RecordFunction& event);
  Tensors fresh_results(const std::vector<c10::IValue>& outputs, bool& all_plain) const;
  bool can_replay() const;
  void adopt_undefined(const Tensors& fresh);
  tape::NodeId add_node(const Tensors& fresh);
  void forget_writes();
  void forget_write(Written& written);
  void forget_overlapped();
  void note_beside();
  void forget_beside();
  void hold_sources(tape::NodeId node);
  void hold_source(const Read& read);
  void note_all_bytes(tape::BufferId buffer, const c10::Storage& storage);
  void widen(Held& held, Span shown, const c10::Storage& storage);
  void look_what_is_there();
  void note_made(tape::NodeId node, const Tensors& fresh);

  // Policies. Asked without the lock: one may be a function of the user's, in Python.
  void apply_policy(tape::NodeId node);
  void decide(tape::ValueId value, const policy::Facts& facts);
  void keep(tape::ValueId value, c10::Storage storage, const tape::Geometry& geometry);
  void keep_in_place(std::span<const tape::ValueId> writes);
  tape::ValueId note_name(const at::Tensor& tensor, const std::string& name);
  void carry_out(tape::ValueId value, policy::Decision decision, const at::Tensor& tensor);
  [[nodiscard]] bool casts_parameter() const;
  [[nodiscard]] const Region& region_of(tape::ValueId value) const;
  [[nodiscard]] std::shared_ptr<const std::string> module() const;
  [[nodiscard]] bool is_kept_by_policy(tape::ValueId value) const;

  void settle_written(tape::NodeId node);
  void settle_results(tape::NodeId node, const Tensors& fresh);
  void end_opaque();
  void end_reshaping(const at::RecordFunction& event);
  tape::DrawId observe_draw(at::ArrayRef<c10::IValue> arguments, bool& readable);

  // Saved tensors.
  Location locate(const at::Tensor& tensor);
  Location locate(const Pending& pending);
  Location at_value(const at::Tensor& tensor, tape::ValueId value);
  Location at_source(const at::Tensor& tensor, tape::ValueId value);
  Location on_tape(const at::Tensor& tensor, tape::ValueId value, Reason reason);
  void keep_for_now(tape::ValueId value);
  [[nodiscard]] bool is_repeatable(tape::ValueId value) const;
  void note_before(Pending& pending) const;
  void settle_pending();

  void give_to_hooks(Recording& recording, size_t hooks, std::vector<std::unique_ptr<Held>>& freed);
  void settle_balance(Recording& recording, std::vector<std::unique_ptr<Held>>& freed);
  void let_go_of_balance(Recording& recording, std::vector<std::unique_ptr<Held>>& freed);
  void cut(const Region& region, size_t segments);
  void prune_if_grown();
  void clear_leaf();
  void silence_inner_calls();

  std::shared_ptr<Recording> recording_;
  Memories memories_;
  Balance balance_;
  SharedCopies shared_copies_;                    ///< of all regions of the thread
  std::vector<std::unique_ptr<Held>> graveyard_;  ///< to be freed without the lock
  std::vector<Region> regions_;
  std::exception_ptr failure_;
  /// A region was destroyed on another thread, which cannot end what this one does.
  std::atomic<bool> abandoned_{false};
  const std::thread::id thread_ = std::this_thread::get_id();
  at::CallbackHandle observer_ = at::INVALID_CALLBACK_HANDLE;
  uint32_t recorded_ = 0;  ///< nodes made, those included that were pruned
  size_t prune_at_nodes_ = 0;
  size_t prune_at_bytes_ = 0;
  size_t held_bytes_ = 0;  ///< of what was taken hold of; an upper bound between prunes

  // The running leaf. Calls nest; the leaf is the one at depth `leaf_depth_`, calls inside belong
  // to it.
  size_t depth_ = 0;
  size_t leaf_depth_ = 0;
  Leaf leaf_ = Leaf::none;
  const Operator* op_ = nullptr;
  const char* function_ = nullptr;  ///< name of the Function that the leaf is, where op_ is null
  CallBuilder call_;
  std::vector<Read> reads_;
  std::vector<Written> written_;
  std::vector<Overlapped> overlapped_;
  std::vector<tape::BufferId> beside_;  ///< in the storage of what is written, and not written
  std::vector<Compared> compared_;
  std::vector<Pending> pending_;
  std::vector<size_t> modes_;              ///< depths of the calls that a dispatch mode is handling
  std::vector<at::Tensor> counted_later_;  ///< what operators wrote in the outermost of them
  tape::DrawId draw_ = tape::kNone;
  tape::DrawId last_draw_ = tape::kNone;
  DrawLog draw_log_;
  bool recordable_ = true;  ///< every argument so far can be recorded
  bool silenced_ = false;   ///< calls inside the leaf fire no events
  int exceptions_ = 0;      ///< in flight when the leaf began
};

/// How the user's innermost saved_tensors_hooks are had, as autograd has them.
using HooksFactory = std::unique_ptr<torch::autograd::SavedVariableHooks> (*)();
void set_hooks_factory(HooksFactory factory);

/// True iff a region opened here and now would record: grad mode is on and no torch.func transform
/// is active.
bool can_record();

}  // namespace remat::record
