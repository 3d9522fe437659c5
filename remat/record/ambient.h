#pragma once

#include <memory>
#include <optional>

#include <ATen/Context.h>
#include <c10/core/ScalarType.h>

namespace remat::record {

/// What a kernel reads besides its arguments. Backward runs in other surroundings than forward did
/// (the engine turns grad mode off, `with flags(...)` has ended), so a replay puts these back: the
/// thread count alone changes the bits of a sum.
struct Ambient {
  bool grad_mode;
  bool inference_mode;
  bool flush_denormal;
  c10::ScalarType default_dtype;
  int threads;
  bool deterministic;
  bool deterministic_warn_only;
  bool deterministic_fill;
  bool cudnn;
  bool cudnn_benchmark;
  bool cudnn_deterministic;
  bool mkldnn;
  bool mkldnn_deterministic;
  bool nnpack;
  at::LinalgBackend linalg;

  /// In which precision float32 matrix products are computed.
  struct Precision {
    at::Float32Precision generic;
    at::Float32Precision cuda_matmul;
    at::Float32Precision cuda_conv;
    at::Float32Precision cuda_rnn;
    at::Float32Precision mkldnn_matmul;
    at::Float32Precision mkldnn_conv;
    at::Float32Precision mkldnn_rnn;

    friend bool operator==(const Precision&, const Precision&) = default;
    static Precision current();
    /// What operators on the CPU read is read, the rest is taken from `known`.
    static Precision current_of_cpu(Precision known);
  };
  Precision precision;

  friend bool operator==(const Ambient&, const Ambient&) = default;

  static Ambient current() { return current(Precision::current()); }
  static Ambient current(const Precision& precision);
};

/// The current state, the same object as long as it does not change. Of the precisions of matrix
/// products only those are read again that an operator on `multiplies_on` may read, none without a
/// device: reading them is most of the cost.
std::shared_ptr<const Ambient> interned_ambient(std::optional<c10::DeviceType> multiplies_on);

/// Sets the state on this thread while it lives, and puts back what was there.
class AmbientScope {
 public:
  AmbientScope() : entered_(Ambient::current()), now_(entered_) {}
  ~AmbientScope() { switch_to(entered_); }
  AmbientScope(const AmbientScope&) = delete;
  AmbientScope& operator=(const AmbientScope&) = delete;

  void switch_to(const Ambient& wanted);

 private:
  const Ambient entered_;
  Ambient now_;
};

}  // namespace remat::record
