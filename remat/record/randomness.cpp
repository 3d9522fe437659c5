#include "remat/record/randomness.h"

#include <array>
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

// The layout of a CPU generator's state: 24 bytes, the block of 624 numbers in 64 bits each, the
// rest. Were it another, no state would be found to follow from an older one.
constexpr size_t kBlock = 24;
constexpr size_t kNumbers = 624;
constexpr size_t kBehindBlock = kBlock + kNumbers * sizeof(uint64_t);
constexpr size_t kStateBytes = 5056;

constexpr uint32_t kMostTried = 8;    ///< twists between two draws: what is drawn then is small
constexpr uint32_t kMostTwists = 64;  ///< from a state that is held: each takes a microsecond

/// The next block of the Mersenne Twister (Matsumoto and Nishimura 1998, MT19937).
void twist(std::array<uint64_t, kNumbers>& block) {
  constexpr size_t kShift = 397;
  for (size_t i = 0; i < kNumbers; ++i) {
    const uint64_t mixed = (block[i] & 0x80000000U) | (block[(i + 1) % kNumbers] & 0x7FFFFFFFU);
    block[i] = block[(i + kShift) % kNumbers] ^ (mixed >> 1U) ^ ((mixed & 1U) * 0x9908B0DFU);
  }
}

std::array<uint64_t, kNumbers> block_of(const char* state) {
  std::array<uint64_t, kNumbers> block;
  std::memcpy(block.data(), state + kBlock, sizeof(block));
  return block;
}

/// The state that the draw was noted in.
at::Tensor state_of(const Draw& draw) {
  if (draw.rest.empty()) return draw.state;
  auto state = draw.state.clone();
  auto* bytes = static_cast<char*>(state.mutable_data_ptr());
  auto block = block_of(bytes);
  for (uint32_t i = 0; i < draw.twists; ++i) twist(block);
  std::memcpy(bytes, draw.rest.data(), kBlock);
  std::memcpy(bytes + kBlock, block.data(), sizeof(block));
  std::memcpy(bytes + kBehindBlock, draw.rest.data() + kBlock, draw.rest.size() - kBlock);
  return state;
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

std::optional<Draw> DrawLog::observe(at::Generator generator) {
  at::Tensor state;
  try {
    state = state_of(generator);
  } catch (const c10::Error&) {
    return std::nullopt;
  }
  const bool twister = generator.device().is_cpu() && state.nbytes() == kStateBytes;
  if (!twister) return Draw{std::move(generator), std::move(state)};
  const auto* bytes = static_cast<const char*>(state.const_data_ptr());
  auto base = at::Tensor(base_.lock());
  const auto twists = base.defined() && generator_ == generator ? twists_to(bytes) : std::nullopt;
  last_.assign(bytes, bytes + kStateBytes);
  twists_ = twists.value_or(0);
  if (!twists) {
    generator_ = generator;
    base_ = c10::weak_intrusive_ptr<c10::TensorImpl>(state.getIntrusivePtr());
    return Draw{std::move(generator), std::move(state)};
  }
  std::vector<char> rest(bytes, bytes + kBlock);
  rest.insert(rest.end(), bytes + kBehindBlock, bytes + kStateBytes);
  return Draw{std::move(generator), std::move(base), twists_, std::move(rest)};
}

/// How many blocks the state is behind the one that is held; nothing where it does not follow.
std::optional<uint32_t> DrawLog::twists_to(const char* state) {
  const auto block = block_of(state);
  auto last = block_of(last_.data());
  for (uint32_t tried = 0; tried <= kMostTried && twists_ + tried <= kMostTwists; ++tried) {
    if (last == block) return twists_ + tried;
    twist(last);
  }
  return std::nullopt;
}

at::Generator replica_of(const Draw& draw) {
  at::Generator replica = draw.generator.clone();
  replica.set_state(state_of(draw));
  return replica;
}

DrawScope::DrawScope(const Draw& draw)
    : lock_(lock_patiently(default_generators())),
      generator_(draw.generator),
      entered_(state_of(generator_)) {
  set_state(generator_, state_of(draw));
}

DrawScope::~DrawScope() { set_state(generator_, entered_); }

}  // namespace remat::record
