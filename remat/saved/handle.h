#pragma once

#include <vector>

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include "remat/record/recorder.h"

/// What autograd holds in place of saved tensors while a region is open, and how it comes to hold
/// that.
namespace remat::saved {

/// While it lives, what handles give out on this thread as the very objects that autograd saved is
/// noted: SavedVariable makes other tensors of them.
class GivenObjects {
 public:
  GivenObjects();
  ~GivenObjects();
  GivenObjects(const GivenObjects&) = delete;
  GivenObjects& operator=(const GivenObjects&) = delete;

  /// The object that `given` was made of; undefined where it is none of them, and where it is what
  /// the asking node itself returned, of which plain training makes another, too.
  [[nodiscard]] at::Tensor behind(const at::Tensor& given) const;
  static void note(const at::Tensor& object);

 private:
  std::vector<at::Tensor> objects_;
  GivenObjects* around_;
};

/// Has Python told whether a tensor is more than its bytes: has attributes, or is of a subclass.
/// Called without the interpreter's lock. Set once, before the first region.
void set_object_test(bool (*test)(const c10::TensorImpl& tensor));

/// Stands for one saved tensor: either keeps it, or asks the tape for it when backward does.
class Handle final : public torch::autograd::SavedVariableHooks, public record::Packed {
 public:
  /// `around`: the user's hooks around the region, which get the tensor if it is kept; or null.
  Handle(std::shared_ptr<record::Recording> recording, std::unique_ptr<SavedVariableHooks> around)
      : recording_(std::move(recording)), around_(std::move(around)) {}
  ~Handle() override;

  void call_pack_hook(const at::Tensor& tensor) override;
  at::Tensor call_unpack_hook() override;

  void settle(record::Location location) override;

 private:
  void give_to_hooks();
  [[nodiscard]] uint32_t version_now() const;
  at::Tensor kept() const;
  at::Tensor recomputed() const;
  bool take_apart(const at::Tensor& tensor);
  at::Tensor put_together();
  at::Tensor shown(const c10::Storage& storage) const;
  void verify(const c10::Storage& storage) const;

  std::shared_ptr<record::Recording> recording_;  ///< null once the tensor is kept and
                                                  ///< nobody waits for backward
  std::unique_ptr<SavedVariableHooks> around_;
  /// Of a tensor that is wrapped around others: a handle each, and how to wrap them again.
  std::vector<std::unique_ptr<Handle>> parts_;
  std::shared_ptr<void> how_;
  at::Tensor kept_;       ///< while packed and not yet settled, and where the tensor is kept
  uint32_t version_ = 0;  ///< the kept tensor's count when it was saved
  bool settled_ = false;
  record::Location where_;
};

}  // namespace remat::saved
