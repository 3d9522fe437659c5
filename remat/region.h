#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "remat/policy/policy.h"
#include "remat/tape/tape.h"

namespace remat::record {
class Recorder;
class Recording;
}  // namespace remat::record

namespace remat {

/// How a region treats what its operators make.
struct RegionOptions {
  /// What to keep. Default: nothing but what the region was given.
  policy::Policy policy = policy::nothing_saveable();

  /// In how many segments backward recomputes the region. 1 holds the whole region's values at
  /// once, as backward of plain training does; k segments hold one segment and the boundaries of
  /// the others, for up to one more forward pass. 0, the default: 1 for a region the size of a
  /// layer (up to 512 operators), sqrt(operators) for larger ones.
  size_t segments = 0;

  /// Verify mode: every element of every value that operators of the region make is fingerprinted
  /// in the forward pass and compared when backward recomputes. The first difference raises
  /// c10::Error that names the operator, the module, the shape, the element, and the cause where it
  /// is known. Takes about 3 % of the bytes made, and the time to read them. For the whole of the
  /// outermost region from here on.
  bool verify = false;
};

/// While it lives, what autograd saves on this thread is recomputed in backward instead of kept.
///
///     remat::Region region;
///     auto loss = model->forward(x).sum();
///     region.close();
///     loss.backward();
///
/// Regions nest. Where grad mode is off (evaluation), in inference mode and inside torch.func
/// transforms a region records nothing and costs nothing. Regions close in the reverse order of
/// opening, on the thread that opened them.
class Region {
 public:
  explicit Region(const RegionOptions& options = {});
  /// Closes the region; an error of recording is then lost, close() raises it.
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  /// Ends recording. Throws c10::Error if recording failed: everything was kept from there on,
  /// gradients stay right. A second call does nothing.
  void close();

  /// Says which module runs from here on, by its path in the model ("layers.3.mlp"; "" is the
  /// whole model), for policies that ask (policy::modules). Regions inside know it as well, unless
  /// they are told another.
  void set_module(std::string path);

  /// True iff it records.
  [[nodiscard]] bool is_recording() const;

  /// What was recorded, with all regions around; after the outermost region closed, what backward
  /// may need of it. Empty where the region does not record.
  [[nodiscard]] const tape::Tape& tape() const;
  /// Bytes of tensors held because of the recording: what the region was given, what policies keep,
  /// what replays made and backward has yet to ask for.
  [[nodiscard]] int64_t held_bytes() const;
  /// Bytes that the tape itself takes.
  [[nodiscard]] int64_t tape_bytes() const;

 private:
  void leave();

  std::shared_ptr<record::Recorder> recorder_;  ///< null where it does not record, or is closed
  std::shared_ptr<record::Recording> recording_;
  size_t depth_ = 0;  ///< regions open on the recorder once this one is
  size_t segments_ = 0;
};

}  // namespace remat
