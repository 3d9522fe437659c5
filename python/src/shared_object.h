#pragma once

#include <memory>

#include <pybind11/pybind11.h>

namespace remat::python {

/// A Python object that any thread may let go of, with or without the interpreter's lock, and after
/// the interpreter.
inline std::shared_ptr<PyObject> shared(pybind11::object object) {
  return {object.release().ptr(), [](PyObject* held) {
            if (Py_IsInitialized() == 0) return;
            const pybind11::gil_scoped_acquire acquired;
            Py_DECREF(held);
          }};
}

}  // namespace remat::python
