#include "remat/record/call.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>

#include <ATen/ops/from_blob.h>
#include <c10/util/flat_hash_map.h>

namespace remat::record {

namespace {

/// Calls are shared across regions and steps. A program whose arguments never repeat (a step count
/// as a scalar) would fill the table, so it starts anew at this size; tapes hold what they use.
constexpr size_t kMostCalls = 8192;

uint64_t hash_of(const std::vector<uint64_t>& key) {
  uint64_t hash = key.size();
  for (const uint64_t word : key) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 32U;
  }
  return hash;
}

std::string printed(const Operator& op, const std::vector<c10::IValue>& plain,
                    const std::vector<Call::Slot>& slots) {
  std::ostringstream text;
  const char* separator = "";
  for (size_t i = 0; i < plain.size(); ++i) {
    if (slots[i] != Call::Slot::plain || plain[i].isNone()) continue;
    text << separator << op.arguments[i].name << "=";
    if (plain[i].isTensor()) {
      text << plain[i].toTensor().item();
    } else {
      text << plain[i];
    }
    separator = ", ";
  }
  return text.str();
}

/// The geometry that CallBuilder::add_geometry wrote there. Read from the key and not from the
/// tensor, which out= may have resized since.
tape::Geometry decoded(const uint64_t* words) {
  const auto type = static_cast<c10::ScalarType>(words[0] & 0xFFU);
  const size_t extents = 2 * ((words[0] >> 16U) & 0xFFFFU);
  tape::Geometry geometry;
  geometry.dtype = dtype_of(type);
  geometry.device = {static_cast<int8_t>(words[0] >> 32U & 0xFFU),
                     static_cast<int8_t>(words[0] >> 40U & 0xFFU)};
  geometry.conjugate = (words[0] >> 8U & 1U) != 0;
  geometry.negative = (words[0] >> 9U & 1U) != 0;
  geometry.offset = static_cast<int64_t>(words[1]);
  geometry.extents.assign(words + 2, words + 2 + extents);
  return geometry;
}

/// The same number in memory that no allocator counts: calls are shared and belong to no region.
at::Tensor own_number(const at::Tensor& wrapped) {
  auto bytes = std::make_shared<std::array<char, 16>>();
  std::memcpy(bytes->data(), wrapped.const_data_ptr(),
              std::min<size_t>(wrapped.nbytes(), bytes->size()));
  auto number = at::from_blob(
      bytes->data(), {}, [bytes](void*) {}, wrapped.options());
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  return number;
}

uint64_t bits_of(double number) {
  uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  return bits;
}

template <typename Take>
c10::List<at::Tensor> tensor_list(uint32_t count, const Take& take) {
  c10::List<at::Tensor> list;
  for (uint32_t n = 0; n < count; ++n) list.push_back(take());
  return list;
}

template <typename Take>
c10::List<std::optional<at::Tensor>> optional_list(uint32_t count, const Take& take) {
  c10::List<std::optional<at::Tensor>> list;
  for (uint32_t n = 0; n < count; ++n) {
    at::Tensor tensor = take();
    list.push_back(tensor.defined() ? std::make_optional(std::move(tensor)) : std::nullopt);
  }
  return list;
}

}  // namespace

torch::jit::Stack Call::stack(std::span<const at::Tensor> reads,
                              const at::Generator& generator) const {
  torch::jit::Stack stack;
  stack.reserve(slots.size());
  size_t next = 0;
  const auto take = [&] {
    const int32_t index = tensors[next++];
    return index < 0 ? at::Tensor() : reads[static_cast<size_t>(index)];
  };
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] == Slot::plain) {
      stack.push_back(plain[i]);
    } else if (slots[i] == Slot::generator) {
      stack.push_back(generator.defined() ? c10::IValue(generator) : c10::IValue());
    } else if (slots[i] == Slot::tensor) {
      stack.emplace_back(take());
    } else if (slots[i] == Slot::tensors) {
      stack.emplace_back(tensor_list(counts[i], take));
    } else {
      stack.emplace_back(optional_list(counts[i], take));
    }
  }
  return stack;
}

void CallBuilder::start(const Operator& op, c10::DeviceType device) {
  draft_.target = &op;
  draft_.slots.clear();
  draft_.plain.clear();
  draft_.counts.clear();
  draft_.tensors.clear();
  draft_.writes.clear();
  key_.clear();
  geometries_.clear();
  allocated_.clear();
  reads_ = 0;
  internable_ = true;
  draft_.ambient = interned_ambient(op.pointwise ? std::nullopt : std::make_optional(device));
  put(reinterpret_cast<uintptr_t>(&op));
  put(reinterpret_cast<uintptr_t>(draft_.ambient.get()));
}

Call::Slot CallBuilder::slot_of(const c10::IValue& argument) {
  if (argument.isTensor()) return Call::Slot::tensor;
  if (!argument.isList()) return Call::Slot::plain;
  if (argument.isTensorList()) return Call::Slot::tensors;
  for (const auto& element : argument.toListRef()) {
    if (element.isTensor()) return Call::Slot::optional_tensors;
  }
  return Call::Slot::plain;
}

void CallBuilder::open_slot(Call::Slot slot, size_t count) {
  draft_.slots.push_back(slot);
  draft_.plain.emplace_back();
  draft_.counts.push_back(static_cast<uint32_t>(count));
  put(static_cast<uint64_t>(slot) << 32U | count);
}

void CallBuilder::add_plain(const c10::IValue& argument) {
  const size_t index = draft_.slots.size();
  const bool generator =
      index < draft_.target->arguments.size() && draft_.target->arguments[index].generator;
  draft_.slots.push_back(generator ? Call::Slot::generator : Call::Slot::plain);
  draft_.counts.push_back(0);
  draft_.plain.push_back(generator ? c10::IValue() : argument);
  if (!generator) encode(argument);
}

/// Python numbers reach kernels as tensors that do not promote types; as plain arguments they need
/// no buffer.
void CallBuilder::add_number(const at::Tensor& wrapped) {
  draft_.slots.push_back(Call::Slot::plain);
  draft_.counts.push_back(0);
  draft_.plain.emplace_back(wrapped);
  uint64_t bits[2] = {0, 0};
  std::memcpy(bits, wrapped.const_data_ptr(), std::min<size_t>(wrapped.nbytes(), sizeof(bits)));
  put(0x57ULL << 56U | static_cast<uint64_t>(wrapped.scalar_type()));
  put(bits[0]);
  put(bits[1]);
}

void CallBuilder::add_geometry(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  const auto sizes = impl->sizes();
  const auto strides = impl->strides();
  const auto device = impl->device();
  geometries_.push_back(key_.size());
  put(static_cast<uint64_t>(c10::typeMetaToScalarType(impl->dtype())) |
      static_cast<uint64_t>(impl->is_conj()) << 8U | static_cast<uint64_t>(impl->is_neg()) << 9U |
      static_cast<uint64_t>(sizes.size()) << 16U | static_cast<uint64_t>(device.type()) << 32U |
      static_cast<uint64_t>(static_cast<uint8_t>(device.index())) << 40U);
  put(static_cast<uint64_t>(impl->storage_offset()));
  for (const int64_t size : sizes) put(static_cast<uint64_t>(size));
  for (const int64_t stride : strides) put(static_cast<uint64_t>(stride));
}

void CallBuilder::encode(const c10::IValue& argument) {
  if (argument.isInt()) {
    put(1), put(static_cast<uint64_t>(argument.toInt()));
  } else if (argument.isBool()) {
    put(2), put(argument.toBool() ? 1 : 0);
  } else if (argument.isDouble()) {
    put(3), put(bits_of(argument.toDouble()));
  } else if (argument.isNone()) {
    put(4);
  } else if (argument.isComplexDouble()) {
    put(5), put(bits_of(argument.toComplexDouble().real())),
        put(bits_of(argument.toComplexDouble().imag()));
  } else if (argument.isDevice()) {
    put(6), put(static_cast<uint64_t>(argument.toDevice().type()) << 8U |
                static_cast<uint8_t>(argument.toDevice().index()));
  } else if (argument.isString()) {
    put(7);
    const auto& text = argument.toStringRef();
    put(text.size());
    for (const char c : text) put(static_cast<uint64_t>(c));
  } else if (argument.isList()) {
    const auto elements = argument.toListRef();
    put(8), put(elements.size());
    for (const auto& element : elements) encode(element);
  } else {
    internable_ = false;
  }
}

void CallBuilder::add_write(tape::Write write) {
  draft_.writes.push_back(write);
  put(0x58ULL << 56U | static_cast<uint64_t>(write.read) << 1U |
      static_cast<uint64_t>(write.overwrites));
}

void CallBuilder::add_result(const at::Tensor& result) {
  add_geometry(result);
  allocated_.push_back(static_cast<int64_t>(result.storage().nbytes()));
  put(result.storage().nbytes());
}

std::shared_ptr<const Call> CallBuilder::finish() {
  thread_local ska::flat_hash_map<uint64_t, std::shared_ptr<const Call>> known;
  const uint64_t hash = hash_of(key_);
  if (internable_) {
    const auto found = known.find(hash);
    if (found != known.end() && found->second->key == key_) return found->second;
  }
  auto call = std::make_shared<Call>(draft_);
  for (c10::IValue& argument : call->plain) {
    if (argument.isTensor()) argument = own_number(argument.toTensor());
  }
  call->op = draft_.target->name;
  call->random = draft_.target->seeded;
  call->arguments = printed(*draft_.target, draft_.plain, draft_.slots);
  for (size_t i = 0; i < geometries_.size(); ++i) {
    (i < reads_ ? call->reads : call->results).push_back(decoded(key_.data() + geometries_[i]));
  }
  call->allocated = allocated_;
  call->key = key_;
  if (!internable_) return call;
  if (known.size() >= kMostCalls) known.clear();
  known[hash] = call;
  return call;
}

}  // namespace remat::record
