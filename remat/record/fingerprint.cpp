#include "remat/record/fingerprint.h"

#include <algorithm>
#include <sstream>

#include "remat/record/recorder.h"
#include "remat/record/spot.h"
#include "remat/record/view.h"

namespace remat::record {

namespace {

constexpr int64_t kHashedSingly = 4096;
constexpr int64_t kBlock = 64;

int64_t block_of(int64_t elements) { return elements <= kHashedSingly ? 1 : kBlock; }

}  // namespace

Fingerprint::Fingerprint(const at::Tensor& tensor) : geometry_(geometry_of(tensor)) {
  const Recorder::Pause pause;
  const at::Tensor here = tensor.is_cpu() ? tensor : tensor.cpu();
  blocks_ = block_hashes(here, block_of(tensor.numel()));
}

std::optional<std::string> Fingerprint::difference(const Fingerprint& other) const {
  const auto [mine, theirs] =
      std::mismatch(blocks_.begin(), blocks_.end(), other.blocks_.begin(), other.blocks_.end());
  if (mine == blocks_.end()) return std::nullopt;
  const int64_t elements = geometry_.elements();
  const int64_t block = block_of(elements);
  const int64_t first = (mine - blocks_.begin()) * block;
  if (block == 1) return "element " + position(first);
  const int64_t last = std::min(first + block, elements) - 1;
  return "one of the elements " + position(first) + " to " + position(last);
}

std::string Fingerprint::position(int64_t element) const {
  std::vector<int64_t> index(geometry_.dimensions());
  for (size_t dim = index.size(); dim-- > 0;) {
    index[dim] = element % geometry_.sizes()[dim];
    element /= geometry_.sizes()[dim];
  }
  std::ostringstream text;
  const char* separator = "[";
  for (const int64_t i : index) text << std::exchange(separator, ", ") << i;
  text << (index.empty() ? "[]" : "]");
  return text.str();
}

}  // namespace remat::record
