#include "remat/name.h"

#include <stdexcept>

#include "remat/record/recorder.h"

namespace remat {

at::Tensor name(at::Tensor tensor, const std::string& name) {
  if (name.empty()) throw std::invalid_argument("remat: a value cannot be named \"\"");
  if (auto* recorder = record::Recorder::current()) recorder->name(tensor, name);
  return tensor;
}

}  // namespace remat
