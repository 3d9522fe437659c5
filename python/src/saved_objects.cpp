#include "saved_objects.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/utils/pybind.h>

#include "remat/saved/handle.h"

namespace py = pybind11;

namespace remat::python {

namespace {

/// The tensor object that forward saved, where `given` is another over the same bytes:
/// SavedVariable makes one of every tensor with a graph, and of every leaf, that a hook gives back.
/// Else undefined.
at::Tensor object_behind(const at::Tensor& given, const saved::GivenObjects& objects) {
  if (!given.defined() || !given.requires_grad()) return {};
  const auto object = objects.behind(given);
  return object.defined() && !object.is_same(given) ? object : at::Tensor();
}

/// `read(ctx)` gives what the Function saved.
py::object saved_tensors(const py::object& read, const py::object& ctx) {
  const saved::GivenObjects objects;
  py::object saved = read(ctx);
  if (!py::isinstance<py::tuple>(saved)) return saved;
  const auto tensors = py::reinterpret_borrow<py::tuple>(saved);
  py::tuple result(tensors.size());
  bool changed = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    py::object element = tensors[i];
    if (THPVariable_Check(element.ptr())) {
      const auto object = object_behind(THPVariable_Unpack(element.ptr()), objects);
      if (object.defined()) element = py::cast(object);
      changed = changed || object.defined();
    }
    result[i] = element;
  }
  return changed ? py::object(result) : saved;
}

bool is_more_than_bytes(const c10::TensorImpl& tensor) {
  auto* object = tensor.pyobj_slot()->load_pyobj();
  if (object == nullptr) return false;
  if (Py_TYPE(object) != reinterpret_cast<PyTypeObject*>(THPVariableClass)) return true;
  PyObject** attributes = _PyObject_GetDictPtr(object);
  return attributes != nullptr && *attributes != nullptr && PyDict_GET_SIZE(*attributes) != 0;
}

}  // namespace

void add_saved_objects(py::module_& m) {
  m.def("saved_tensors", &saved_tensors, py::arg("read"), py::arg("ctx"));
  saved::set_object_test(&is_more_than_bytes);
}

}  // namespace remat::python
