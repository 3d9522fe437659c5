#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/decoder.h"

/// Which layers' activations are computed again in backward: --activation-checkpointing.
namespace remat::finetune {

/// Consecutive layers [begin, end). A recomputed span is one region.
struct Span {
  size_t begin = 0;
  size_t end = 0;
  bool recomputed = true;
  friend bool operator==(const Span&, const Span&) = default;
};

/// All `layers` layers in order, cut by the name of the setting:
///  none      all keep their activations;
///  full      a region a layer;
///  sqrt      ceil(sqrt(layers)) regions of about equal length (Chen et al. 2016, arXiv
///            1604.06174);
///  every:N   a region around every N-th layer, the first among them, the others keep theirs: the
///            every_n_layers of transformers.
/// Throws Error{usage} on another name, naming these.
std::vector<Span> activation_spans(std::string_view setting, size_t layers);

/// Runs layers as activation_spans() says.
models::RunLayers run_with_recomputation(std::string_view setting, size_t layers);

}  // namespace remat::finetune
