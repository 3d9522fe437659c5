#pragma once

#include <pybind11/pybind11.h>

namespace remat::python {

/// Adds `saved_tensors(read, ctx)`: what a custom Function's backward asks for, as the objects that
/// forward saved where the program or the region still has them.
void add_saved_objects(pybind11::module_& m);

}  // namespace remat::python
