#include "saved_leaves.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace remat::python {

namespace {

namespace autograd = torch::autograd;

/// The leaf into which the gradient of `given` is accumulated, where `given` is another tensor
/// object over the same bytes: SavedVariable makes one of every leaf that a hook gives back. Else
/// undefined.
at::Tensor leaf_behind(const at::Tensor& given) {
  if (!given.defined() || !given.is_leaf() || !given.requires_grad()) return {};
  const auto node = autograd::impl::try_get_grad_accumulator(given);
  const auto* accumulates = dynamic_cast<autograd::AccumulateGrad*>(node.get());
  if (accumulates == nullptr) return {};
  const at::Tensor& leaf = accumulates->variable;
  const bool same = !leaf.is_same(given) && leaf.has_storage() && given.has_storage() &&
                    leaf.storage().is_alias_of(given.storage()) &&
                    leaf.storage_offset() == given.storage_offset() &&
                    leaf.sizes() == given.sizes() && leaf.strides() == given.strides();
  return same ? leaf : at::Tensor();
}

py::object as_saved(py::object saved) {
  if (!py::isinstance<py::tuple>(saved)) return saved;
  const auto tensors = py::reinterpret_borrow<py::tuple>(saved);
  py::tuple result(tensors.size());
  bool changed = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    py::object element = tensors[i];
    if (THPVariable_Check(element.ptr())) {
      const auto leaf = leaf_behind(THPVariable_Unpack(element.ptr()));
      if (leaf.defined()) element = py::cast(leaf);
      changed = changed || leaf.defined();
    }
    result[i] = element;
  }
  return changed ? py::object(result) : saved;
}

}  // namespace

void add_saved_leaves(py::module_& m) { m.def("as_saved", &as_saved, py::arg("tensors")); }

}  // namespace remat::python
