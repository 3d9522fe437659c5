#pragma once

#include <pybind11/pybind11.h>

namespace remat::python {

/// Policies, what they are told, and the naming of values.
void add_policies(pybind11::module_& m);

}  // namespace remat::python
