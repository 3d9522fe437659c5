#pragma once

#include <string>

#include "remat/tape/tape.h"

namespace remat::tape {

/// A line a node, in program order, indented by region; then the saved tensors. For people.
std::string to_text(const Tape& tape);

/// The dataflow for Graphviz: a box a node, an edge a value, a cluster a region.
std::string to_dot(const Tape& tape);

/// The whole tape for programs, format "remat-tape-1" (docs/tape.md).
std::string to_json(const Tape& tape);

}  // namespace remat::tape
