#include "remat/record/ambient.h"

#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

namespace remat::record {

namespace {

/// Read by its effect: c10 can set the flag but not tell it, and a getter of our own would be one a
/// processor.
bool flushes_denormals() {
  volatile float smallest_normal = 1.17549435e-38F;
  return smallest_normal * 0.5F == 0.0F;
}

using at::Float32Backend;
using at::Float32Op;

}  // namespace

Ambient::Precision Ambient::Precision::current() {
  const auto& context = at::globalContext();
  auto now = current_of_cpu({});
  now.cuda_matmul = context.float32Precision(Float32Backend::CUDA, Float32Op::MATMUL);
  now.cuda_conv = context.float32Precision(Float32Backend::CUDA, Float32Op::CONV);
  now.cuda_rnn = context.float32Precision(Float32Backend::CUDA, Float32Op::RNN);
  return now;
}

Ambient::Precision Ambient::Precision::current_of_cpu(Precision known) {
  const auto& context = at::globalContext();
  known.generic = context.float32Precision(Float32Backend::GENERIC, Float32Op::ALL);
  known.mkldnn_matmul = context.float32Precision(Float32Backend::MKLDNN, Float32Op::MATMUL);
  known.mkldnn_conv = context.float32Precision(Float32Backend::MKLDNN, Float32Op::CONV);
  known.mkldnn_rnn = context.float32Precision(Float32Backend::MKLDNN, Float32Op::RNN);
  return known;
}

Ambient Ambient::current(const Precision& precision) {
  const auto& context = at::globalContext();
  return {
      .grad_mode = c10::GradMode::is_enabled(),
      .inference_mode = c10::InferenceMode::is_enabled(),
      .flush_denormal = flushes_denormals(),
      .default_dtype = c10::get_default_dtype_as_scalartype(),
      .threads = at::get_num_threads(),
      .deterministic = context.deterministicAlgorithms(),
      .deterministic_warn_only = context.deterministicAlgorithmsWarnOnly(),
      .deterministic_fill = context.deterministicFillUninitializedMemory(),
      .cudnn = context.userEnabledCuDNN(),
      .cudnn_benchmark = context.benchmarkCuDNN(),
      .cudnn_deterministic = context.deterministicCuDNN(),
      .mkldnn = context.userEnabledMkldnn(),
      .mkldnn_deterministic = context.deterministicMkldnn(),
      .nnpack = context.userEnabledNNPACK(),
      .linalg = context.linalgPreferredBackend(),
      .precision = precision,
  };
}

std::shared_ptr<const Ambient> interned_ambient(std::optional<c10::DeviceType> multiplies_on) {
  thread_local std::shared_ptr<const Ambient> last;
  const auto precision = [&] {
    if (last && !multiplies_on) return last->precision;
    if (last && multiplies_on == c10::kCPU)
      return Ambient::Precision::current_of_cpu(last->precision);
    return Ambient::Precision::current();
  };
  const Ambient now = Ambient::current(precision());
  if (!last || !(*last == now)) last = std::make_shared<const Ambient>(now);
  return last;
}

void AmbientScope::switch_to(const Ambient& wanted) {
  if (wanted == now_) return;
  auto& context = at::globalContext();
  const auto change = [&](auto field, auto set) {
    if (wanted.*field != now_.*field) set(wanted.*field);
  };
  const auto precision = [&](at::Float32Precision Ambient::Precision::*field,
                             Float32Backend backend, Float32Op op) {
    const auto value = wanted.precision.*field;
    if (value != now_.precision.*field) context.setFloat32Precision(backend, op, value);
  };
  change(&Ambient::grad_mode, [](bool on) { c10::GradMode::set_enabled(on); });
  change(&Ambient::flush_denormal, [](bool on) { at::Context::setFlushDenormal(on); });
  change(&Ambient::default_dtype,
         [](auto type) { c10::set_default_dtype(c10::scalarTypeToTypeMeta(type)); });
  change(&Ambient::threads, [](int count) { at::set_num_threads(count); });
  if (wanted.deterministic != now_.deterministic ||
      wanted.deterministic_warn_only != now_.deterministic_warn_only) {
    context.setDeterministicAlgorithms(wanted.deterministic, wanted.deterministic_warn_only);
  }
  change(&Ambient::deterministic_fill,
         [&](bool on) { context.setDeterministicFillUninitializedMemory(on); });
  change(&Ambient::cudnn, [&](bool on) { context.setUserEnabledCuDNN(on); });
  change(&Ambient::cudnn_benchmark, [&](bool on) { context.setBenchmarkCuDNN(on); });
  change(&Ambient::cudnn_deterministic, [&](bool on) { context.setDeterministicCuDNN(on); });
  change(&Ambient::mkldnn, [&](bool on) { context.setUserEnabledMkldnn(on); });
  change(&Ambient::mkldnn_deterministic, [&](bool on) { context.setDeterministicMkldnn(on); });
  change(&Ambient::nnpack, [&](bool on) { context.setUserEnabledNNPACK(on); });
  change(&Ambient::linalg,
         [&](at::LinalgBackend backend) { context.setLinalgPreferredBackend(backend); });
  precision(&Ambient::Precision::generic, Float32Backend::GENERIC, Float32Op::ALL);
  precision(&Ambient::Precision::cuda_matmul, Float32Backend::CUDA, Float32Op::MATMUL);
  precision(&Ambient::Precision::cuda_conv, Float32Backend::CUDA, Float32Op::CONV);
  precision(&Ambient::Precision::cuda_rnn, Float32Backend::CUDA, Float32Op::RNN);
  precision(&Ambient::Precision::mkldnn_matmul, Float32Backend::MKLDNN, Float32Op::MATMUL);
  precision(&Ambient::Precision::mkldnn_conv, Float32Backend::MKLDNN, Float32Op::CONV);
  precision(&Ambient::Precision::mkldnn_rnn, Float32Backend::MKLDNN, Float32Op::RNN);
  now_ = wanted;
}

}  // namespace remat::record
