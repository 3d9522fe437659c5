#include <cmath>
#include <stdexcept>

#include "remat/remat.h"

namespace remat {

at::Tensor checkpoint_sequential(const std::vector<Layer>& layers, at::Tensor input,
                                 std::optional<size_t> segments, const RegionOptions& options) {
  if (layers.empty())
    throw std::invalid_argument("remat: checkpoint_sequential was given no layers");
  const size_t wanted = segments.value_or(static_cast<size_t>(std::ceil(std::sqrt(layers.size()))));
  if (wanted == 0)
    throw std::invalid_argument("remat: checkpoint_sequential needs at least one segment");
  const size_t count = std::min(wanted, layers.size());
  for (size_t segment = 0; segment < count; ++segment) {
    // Evenly: lengths differ by one at most, so that no segment is larger than it must be.
    const size_t begin = segment * layers.size() / count;
    const size_t end = (segment + 1) * layers.size() / count;
    Region region(options);
    for (size_t i = begin; i < end; ++i) input = layers[i](std::move(input));
    region.close();
  }
  return input;
}

}  // namespace remat
