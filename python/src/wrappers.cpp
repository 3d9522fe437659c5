#include "wrappers.h"

#include <torch/csrc/utils/pybind.h>

#include "remat/saved/wrapper.h"
#include "shared_object.h"

namespace py = pybind11;

namespace remat::python {

namespace {

// Kept for the life of the process.
PyObject* take_apart_function = nullptr;
PyObject* put_together_function = nullptr;

/// `take_apart(tensor)` returns None or (tensors, how).
std::optional<saved::Parts> take_apart(const at::Tensor& wrapper) {
  const py::gil_scoped_acquire acquired;
  const auto parts = py::reinterpret_borrow<py::object>(take_apart_function)(wrapper);
  if (parts.is_none()) return std::nullopt;
  const auto pair = py::cast<py::tuple>(parts);
  return saved::Parts{py::cast<std::vector<at::Tensor>>(pair[0]), shared(pair[1])};
}

at::Tensor put_together(const saved::Parts& parts) {
  const py::gil_scoped_acquire acquired;
  const auto how = py::reinterpret_borrow<py::object>(static_cast<PyObject*>(parts.how.get()));
  const auto function = py::reinterpret_borrow<py::object>(put_together_function);
  return py::cast<at::Tensor>(function(parts.tensors, how));
}

}  // namespace

void add_wrappers(py::module_& m) {
  m.def(
      "set_wrapper_hooks",
      [](py::object apart, py::object together) {
        take_apart_function = apart.release().ptr();
        put_together_function = together.release().ptr();
        saved::set_wrapper_hooks({&take_apart, &put_together});
      },
      py::arg("take_apart"), py::arg("put_together"));
}

}  // namespace remat::python
