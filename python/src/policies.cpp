#include "policies.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "remat/remat.h"

namespace py = pybind11;

namespace remat::python {

namespace {

using policy::Decision;
using policy::Policy;

/// What a user's function is told. A copy of its own: the function may keep it.
class Facts {
 public:
  explicit Facts(const policy::Facts& facts)
      : op(facts.op), module(facts.module), names(facts.names.begin(), facts.names.end()) {
    bytes = facts.bytes;
    index = facts.index;
    result = facts.result;
    call = facts.call;
    if (facts.geometry == nullptr) return;
    const auto& sizes = facts.geometry->sizes();
    shape.assign(sizes, sizes + facts.geometry->dimensions());
    dtype = static_cast<at::ScalarType>(facts.geometry->dtype.code);
  }

  std::string op;
  std::optional<std::string> module;
  std::vector<std::string> names;
  std::vector<int64_t> shape;
  at::ScalarType dtype = at::ScalarType::Undefined;
  int64_t bytes = 0;
  uint32_t index = 0;
  uint32_t result = 0;
  uint32_t call = 0;
};

/// A user's function as a policy's rule. Copied and destroyed wherever policies are, with Python's
/// lock held or not.
class Function {
 public:
  explicit Function(py::function function)
      : function_(new py::function(std::move(function)), [](py::function* last) {
          const py::gil_scoped_acquire gil;
          delete last;
        }) {}

  Decision operator()(const policy::Facts& facts) const {
    const py::gil_scoped_acquire gil;
    const py::object answer = (*function_)(Facts(facts));
    if (!PyBool_Check(answer.ptr())) {
      throw py::type_error(
          "remat: a policy function returns True to keep a value or False to "
          "recompute it, not " +
          std::string(py::repr(answer)));
    }
    return answer.ptr() == Py_True ? Decision::keep : Decision::recompute;
  }

 private:
  std::shared_ptr<py::function> function_;
};

Policy of_function(py::function function, const std::optional<std::string>& name) {
  const auto own = py::getattr(function, "__name__", py::str("function"));
  auto label = name ? *name : std::string(py::str(own));
  return {std::move(label), Function(std::move(function))};
}

py::tuple shape_of(const Facts& facts) { return py::tuple(py::cast(facts.shape)); }

std::string text_of(const Facts& facts) {
  std::string text = "Facts(op='" + facts.op + "', bytes=" + std::to_string(facts.bytes) +
                     ", shape=" + std::string(py::repr(shape_of(facts)));
  if (facts.module) text += ", module='" + *facts.module + "'";
  if (!facts.names.empty()) text += ", names=" + std::string(py::repr(py::cast(facts.names)));
  return text + ")";
}

/// What an operator of policies is given beside a policy: one, its text, or a function. Nothing
/// where it is none of these.
std::optional<Policy> operand(const py::object& given) {
  if (py::isinstance<Policy>(given)) return given.cast<Policy>();
  if (py::isinstance<py::str>(given)) return policy::parse(given.cast<std::string>());
  if (PyCallable_Check(given.ptr()) != 0)
    return of_function(py::reinterpret_borrow<py::function>(given), std::nullopt);
  return std::nullopt;
}

/// What Python takes for "I cannot, ask the other operand".
py::object not_implemented() { return py::reinterpret_borrow<py::object>(Py_NotImplemented); }

template <typename Combine>
void add_operator(py::class_<Policy>& policies, const char* name, const char* reversed,
                  Combine combine) {
  policies.def(name, [combine](const Policy& self, const py::object& given) {
    const auto other = operand(given);
    return other ? py::cast(combine(self, *other)) : not_implemented();
  });
  policies.def(reversed, [combine](const Policy& self, const py::object& given) {
    const auto other = operand(given);
    return other ? py::cast(combine(*other, self)) : not_implemented();
  });
}

void add_facts(py::module_& m) {
  py::class_<Facts>(m, "Facts", "What a policy function is told of a value. Read only.")
      .def_readonly("op", &Facts::op)
      .def_readonly("bytes", &Facts::bytes)
      .def_property_readonly("shape", &shape_of)
      .def_readonly("dtype", &Facts::dtype)
      .def_readonly("index", &Facts::index)
      .def_readonly("result", &Facts::result)
      .def_readonly("call", &Facts::call)
      .def_readonly("module", &Facts::module)
      .def_property_readonly("names",
                             [](const Facts& facts) { return py::tuple(py::cast(facts.names)); })
      .def("__repr__", &text_of);
}

}  // namespace

void add_policies(py::module_& m) {
  add_facts(m);
  py::class_<Policy> policies(m, "Policy",
                              "A named pure function of a value's facts that says what to keep.");
  policies.def(py::init(&policy::parse), py::arg("text"))
      .def(py::init(&of_function), py::arg("function"), py::arg("name") = py::none())
      .def_property_readonly("name", &Policy::name)
      .def_property_readonly("wants_module",
                             [](const Policy& policy) { return policy.wants().module; })
      .def("__str__", &Policy::name)
      .def("__repr__", [](const Policy& policy) {
        return "Policy(" + std::string(py::repr(py::str(policy.name()))) + ")";
      });
  add_operator(policies, "__and__", "__rand__", [](const auto& a, const auto& b) { return a & b; });
  add_operator(policies, "__or__", "__ror__", [](const auto& a, const auto& b) { return a | b; });
  add_operator(policies, "__sub__", "__rsub__", [](const auto& a, const auto& b) { return a - b; });
  m.def("keep_ops", &policy::keep_ops, py::arg("patterns"));
  m.def("names", &policy::names, py::arg("patterns"));
  m.def("modules", &policy::modules, py::arg("patterns"));
  m.def("at_least", &policy::at_least, py::arg("size"));
  m.def("at_most", &policy::at_most, py::arg("size"));
  m.def("every", &policy::every, py::arg("k"));
  m.def("save_only_these_names", &policy::save_only_these_names, py::arg("names"));
  m.def("save_any_names_but_these", &policy::save_any_names_but_these, py::arg("names"));
  m.def("save_anything_except_these_names", &policy::save_anything_except_these_names,
        py::arg("names"));
  m.def("refuse_offload", &policy::refuse_offload, py::arg("name"));
  m.def("known_policies", &policy::known);
  m.def(
      "name",
      [](const at::Tensor& tensor, const std::string& name) {
        static_cast<void>(remat::name(tensor, name));
      },
      py::arg("tensor"), py::arg("name"));
}

}  // namespace remat::python
