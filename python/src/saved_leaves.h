#pragma once

#include <pybind11/pybind11.h>

namespace remat::python {

/// Adds `as_saved(tensors)`: what a custom Function's backward asked for, with leaves as the objects
/// that forward saved.
void add_saved_leaves(pybind11::module_& m);

}  // namespace remat::python
