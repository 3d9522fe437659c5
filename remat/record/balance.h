#pragma once

#include <span>
#include <vector>

#include "remat/record/recording.h"

namespace remat::record {

/// Whether a region saves anything by recomputing. What it holds instead, copies of small inputs
/// and states of generators, may be larger than what it drops: then it keeps that, as plain
/// training does.
///
/// Both sides are counted as the region goes on, so that each operator is looked at once.
class Balance {
 public:
  void start(Recording& recording);

  /// Autograd saves the value, which a node made. True iff all that was saved so far takes fewer
  /// bytes than what recomputing it holds: it is then to be kept until more is saved.
  bool is_better_kept(tape::ValueId value);
  /// The values that are kept until then. Empty once recomputing pays.
  [[nodiscard]] std::span<const tape::ValueId> kept() const { return kept_; }
  /// Recomputing pays: they need not be kept any more.
  void let_go() { kept_.clear(); }
  /// The same asked at the end, when it is known what autograd keeps by itself.
  [[nodiscard]] bool pays_in_the_end() const;

  /// The tape was pruned. What is left of it counts as seen.
  void renumber(const tape::Tape::Renumbering& left);

 private:
  void count_sources_of(tape::ValueId value);
  void count_draw(tape::NodeId node);
  [[nodiscard]] int64_t bytes_wanted() const;
  [[nodiscard]] int64_t cost_of(tape::ValueId source) const;

  Recording* recording_ = nullptr;
  int64_t dropped_ = 0;      ///< bytes of what autograd saved
  int64_t held_ = 0;         ///< bytes that are held to recompute it
  int64_t held_states_ = 0;  ///< of them, states of generators
  std::vector<bool> seen_nodes_;
  std::vector<bool> seen_values_;   ///< needed by what was saved
  std::vector<bool> saved_values_;  ///< counted in `dropped_`
  std::vector<tape::ValueId> sources_;
  std::vector<const c10::StorageImpl*> states_;
  std::vector<tape::ValueId> kept_;
};

/// Whether parameters may be sharded over several processes. Each of these has batches of its own
/// sizes: were it to keep what another recomputes, only one of them would gather the weights and
/// wait for ever. Asked, from then on no more once it said so, before anything is kept. Set once,
/// before the first region; where it is not, a way to gather (remat::add_gather) says so.
void set_sharding_test(bool (*test)());
bool may_be_sharded();

/// For tests, in which tensors are small and replays are what is tested: all threads recompute even
/// where that saves nothing.
void set_always_recompute(bool always);
bool always_recompute();

}  // namespace remat::record
