#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/decoder.h"
#include "remat/policy/policy.h"

/// Which layers' activations are computed again in backward: --activation-checkpointing.
namespace remat::finetune {

/// Consecutive layers [begin, end). A recomputed span is one region.
struct Span {
  size_t begin = 0;
  size_t end = 0;
  bool recomputed = true;
  friend bool operator==(const Span&, const Span&) = default;
};

/// What is recomputed of a model's layers.
struct Recomputation {
  std::vector<Span> spans;  ///< all layers in order
  policy::Policy policy;    ///< what recomputed spans keep all the same
};

/// All `layers` layers in order, cut by the name of the setting:
///  none      all keep their activations;
///  full      a region a layer;
///  sqrt      ceil(sqrt(layers)) regions of about equal length (Chen et al. 2016, arXiv
///            1604.06174);
///  every:N   a region around every N-th layer, the first among them, the others keep theirs: the
///            every_n_layers of transformers.
/// `full + POLICY`, `sqrt + POLICY` and `every:N + POLICY` keep what the policy (policy::parse)
/// keeps; `POLICY` alone is `full + POLICY`. Layers are the modules "model.layers.0", ...; values
/// have no names.
/// Throws Error{usage} on anything else, naming these.
Recomputation recomputation_of(std::string_view setting, size_t layers);

/// Runs layers as recomputation_of() says.
models::RunLayers run_with_recomputation(std::string_view setting, size_t layers);

}  // namespace remat::finetune
