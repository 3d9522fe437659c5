#include "remat/record/randomness.h"

#include <cstring>
#include <mutex>
#include <new>
#include <pthread.h>

#include <ATen/core/Tensor.h>

#include "remat/record/waiting.h"

namespace remat::record {

namespace {

at::Tensor state_of(at::Generator& generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator& generator, const at::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

std::recursive_mutex& generators_mutex() {
  static auto& mutex = *new std::recursive_mutex;  // graphs in statics die after it would
  return mutex;
}

void before_fork() { lock_patiently(generators_mutex()).release(); }
void after_fork() { generators_mutex().unlock(); }
/// A recursive mutex knows its owner by a number that the thread does not have in the child.
void after_fork_in_child() { new (&generators_mutex()) std::recursive_mutex; }

/// Guards the default generators while an operator draws from them again. It may be written in
/// Python, and run a backward pass that draws. A fork waits for it, or the child would go on from a
/// replay's state: before it takes the mutexes of fork.h, which the operator may take. Handlers of
/// forks are called last first, and those are there since the first recording.
std::recursive_mutex& default_generators() {
  static const int registered = pthread_atfork(before_fork, after_fork, after_fork_in_child);
  static_cast<void>(registered);
  return generators_mutex();
}

}  // namespace

std::optional<Draw> observe(at::Generator generator, const Draw* last) {
  try {
    auto state = state_of(generator);
    if (last != nullptr && last->generator == generator && same_bytes(last->state, state))
      return *last;
    return Draw{std::move(generator), std::move(state)};
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

at::Generator replica_of(const Draw& draw) {
  at::Generator replica = draw.generator.clone();
  replica.set_state(draw.state);
  return replica;
}

DrawScope::DrawScope(const Draw& draw)
    : lock_(lock_patiently(default_generators())),
      generator_(draw.generator),
      entered_(state_of(generator_)) {
  set_state(generator_, draw.state);
}

DrawScope::~DrawScope() { set_state(generator_, entered_); }

}  // namespace remat::record
