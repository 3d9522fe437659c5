#pragma once

#include <pybind11/pybind11.h>

namespace remat::python {

/// Adds `set_wrapper_hooks(take_apart, put_together)` for remat/_wrappers.py.
void add_wrappers(pybind11::module_& m);

}  // namespace remat::python
