#include <sstream>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include "policies.h"
#include "remat/plan/budget.h"
#include "remat/plan/plan_file.h"
#include "remat/plan/trace_file.h"
#include "remat/record/balance.h"
#include "remat/record/gather.h"
#include "remat/record/recorder.h"
#include "remat/record/waiting.h"
#include "remat/remat.h"
#include "remat/session.h"
#include "saved_objects.h"
#include "shared_object.h"
#include "wrappers.h"

namespace py = pybind11;

namespace {

using remat::RegionOptions;
using remat::policy::Policy;

RegionOptions options(const Policy* policy, size_t segments, bool verify) {
  RegionOptions chosen;
  if (policy != nullptr) chosen.policy = *policy;
  chosen.segments = segments;
  chosen.verify = verify;
  return chosen;
}

/// call_in_region(function, args, kwargs, policy or None, segments). By the C API: pybind11's
/// conversion of the arguments would be a third of what a small region costs.
PyObject* call_in_region(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK(count == 5, "call_in_region takes 5 arguments, not ", count);
  RegionOptions chosen;
  if (arguments[3] != Py_None) chosen.policy = *py::cast<const Policy*>(py::handle(arguments[3]));
  chosen.segments = PyLong_AsSize_t(arguments[4]);
  try {
    remat::Region region(chosen);
    auto result =
        py::reinterpret_steal<py::object>(PyObject_Call(arguments[0], arguments[1], arguments[2]));
    if (!result) return nullptr;
    region.close();
    return result.release().ptr();
  } catch (const std::invalid_argument& error) {  // torch would make a RuntimeError of these
    PyErr_SetString(PyExc_ValueError, error.what());
    return nullptr;
  } catch (const py::builtin_exception& error) {
    error.set_error();
    return nullptr;
  }
  END_HANDLE_TH_ERRORS
}

/// `function(parameter)` fills a parameter and returns what frees it again, or returns None.
uint64_t add_gather(py::function function) {
  return remat::record::add_gather(
      [function = remat::python::shared(std::move(function))](const at::Tensor& parameter) {
        const py::gil_scoped_acquire acquired;
        auto release = py::reinterpret_borrow<py::object>(function.get())(parameter);
        if (release.is_none()) return std::shared_ptr<void>();
        return std::shared_ptr<void>(release.release().ptr(), [](void* held) {
          const py::gil_scoped_acquire acquired;
          const auto release = py::reinterpret_steal<py::object>(static_cast<PyObject*>(held));
          try {
            release();
          } catch (py::error_already_set& error) {  // a destructor runs this
            error.discard_as_unraisable("remat.gather: freeing a parameter");
          }
        });
      });
}

void wait_without_interpreter_lock(std::recursive_mutex& mutex) {
  if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) {
    mutex.lock();
    return;
  }
  const py::gil_scoped_release released;
  mutex.lock();
}

PyTypeObject* parameter_type = nullptr;

bool is_python_parameter(const c10::TensorImpl& tensor) {
  auto* object = tensor.pyobj_slot()->load_pyobj();
  return object != nullptr && PyObject_TypeCheck(object, parameter_type) != 0;
}

bool is_distributed() {
  if (Py_IsInitialized() == 0) return false;
  const py::gil_scoped_acquire acquired;
  const auto modules = py::module_::import("sys").attr("modules");
  const auto distributed = modules.attr("get")("torch.distributed");
  if (distributed.is_none() || !py::cast<bool>(distributed.attr("is_available")())) return false;
  return py::cast<bool>(distributed.attr("is_initialized")());
}

/// Declared Functions call it from inside their forward.
void open_function(const std::string& name) {
  if (auto* recorder = remat::record::Recorder::current()) recorder->open_function(name);
}

/// `__dlpack__` calls it.
void note_exposed(const at::Tensor& tensor) {
  if (auto* recorder = remat::record::Recorder::current()) recorder->note_exposed(tensor);
}

PyMethodDef functions[] = {
    {"call_in_region", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call_in_region)),
     METH_FASTCALL, "Calls function(*args, **kwargs) in a region."},
    {nullptr, nullptr, 0, nullptr},
};

py::dict stats() {
  const remat::Stats stats = remat::stats();
  py::dict dict;
  dict["regions"] = stats.regions;
  dict["ops_recorded"] = stats.ops_recorded;
  dict["ops_replayed"] = stats.ops_replayed;
  dict["bytes_dropped"] = stats.bytes_dropped;
  dict["bytes_kept"] = stats.bytes_kept;
  dict["kept_by_reason"] = stats.kept_by_reason;
  return dict;
}

size_t open_nodes() {
  const auto* recorder = remat::record::Recorder::current();
  return recorder == nullptr ? 0 : recorder->recording()->tape.nodes();
}

void add_regions(py::module_& m) {
  py::class_<remat::Region>(m, "Region", "An open region of this thread.")
      .def(py::init([](const Policy* policy, size_t segments, bool verify) {
             return std::make_unique<remat::Region>(options(policy, segments, verify));
           }),
           py::arg("policy").none(true), py::arg("segments"), py::arg("verify") = false)
      .def("close", &remat::Region::close)
      .def("set_module", &remat::Region::set_module, py::arg("path"))
      .def_property_readonly("is_recording", &remat::Region::is_recording)
      .def("held_bytes", &remat::Region::held_bytes)
      .def("tape_bytes", &remat::Region::tape_bytes)
      .def("text", [](const remat::Region& region) { return to_text(region.tape()); })
      .def("dot", [](const remat::Region& region) { return to_dot(region.tape()); })
      .def("json", [](const remat::Region& region) { return to_json(region.tape()); });
  if (PyModule_AddFunctions(m.ptr(), functions) != 0) throw py::error_already_set();
}

/// A session and the step that is under way.
class Session {
 public:
  Session(int64_t activation_bytes, int64_t memory_bytes, const std::vector<std::string>& plans)
      : session_({activation_bytes, memory_bytes}, read_plans(plans)) {}

  void begin() {
    end();
    step_.emplace(session_.step());
  }

  void end() {
    if (!step_) return;
    auto step = std::move(*step_);
    step_.reset();
    step.end();
  }

  [[nodiscard]] py::dict report() const {
    const auto& report = session_.report();
    py::dict dict;
    dict["steps"] = report.steps;
    dict["followed"] = report.followed;
    dict["plans"] = report.plans;
    dict["budget_bytes"] = report.budget_bytes;
    dict["planned_peak"] = report.planned_peak;
    dict["measured_peak"] = report.measured_peak;
    dict["recompute_percent"] = report.recompute_percent;
    dict["plan_seconds"] = report.plan_seconds;
    return dict;
  }

  [[nodiscard]] std::optional<std::string> plan() const {
    const auto* plan = session_.plan();
    if (plan == nullptr) return std::nullopt;
    std::ostringstream text;
    remat::plan::write_plan(*plan, text);
    return text.str();
  }

  [[nodiscard]] std::optional<std::string> trace() const {
    const auto* trace = session_.trace();
    if (trace == nullptr) return std::nullopt;
    std::ostringstream text;
    remat::plan::write_trace(*trace, text);
    return text.str();
  }

 private:
  static std::vector<remat::plan::Plan> read_plans(const std::vector<std::string>& texts) {
    std::vector<remat::plan::Plan> plans;
    for (const auto& text : texts) {
      std::istringstream in(text);
      plans.push_back(remat::plan::read_plan(in));
    }
    return plans;
  }

  remat::Session session_;
  std::optional<remat::Session::Step> step_;
};

/// remat.DoesNotFit with the attribute least_bytes.
void raise_does_not_fit(const remat::DoesNotFit& error) {
  const auto type = py::module_::import("remat._C").attr("DoesNotFit");
  py::object raised = type(error.what());
  raised.attr("least_bytes") = error.least_bytes();
  PyErr_SetObject(type.ptr(), raised.ptr());
}

void add_sessions(py::module_& m) {
  py::exception<remat::DoesNotFit>(m, "DoesNotFit", PyExc_RuntimeError);
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const remat::DoesNotFit& error) {
      raise_does_not_fit(error);
    }
  });
  m.def("parse_bytes", &remat::plan::parse_bytes, py::arg("text"));
  py::class_<Session>(m, "Session", "Steps within a budget.")
      .def(py::init<int64_t, int64_t, const std::vector<std::string>&>(),
           py::arg("activation_bytes"), py::arg("memory_bytes"), py::arg("plans"))
      .def("begin", &Session::begin)
      .def("end", &Session::end)
      .def("report", &Session::report)
      .def("plan", &Session::plan)
      .def("trace", &Session::trace);
}

void add_counters(py::module_& m) {
  m.def("stats", &stats);
  m.def("reset_stats", &remat::reset_stats);
  m.def("open_nodes", &open_nodes);
  m.def("copy_before_a_step", &remat::record::Recording::copy_before_a_step);
  m.def("set_always_recompute", &remat::record::set_always_recompute, py::arg("always"));
  m.def("total_held_bytes", &remat::record::Recording::total_held_bytes);
  m.def("install_allocator", &remat::memory::install);
  m.def("allocator_is_installed", &remat::memory::is_installed);
  m.def("live_bytes", &remat::memory::live_bytes);
  m.def("peak_bytes", &remat::memory::peak_bytes);
  m.def("reset_peak", &remat::memory::reset_peak);
}

void add_gathering(py::module_& m) {
  m.def("add_gather", &add_gather, py::arg("function"));
  m.def("remove_gather", &remat::record::remove_gather, py::arg("key"));
  remat::record::set_wait(&wait_without_interpreter_lock);
  py::object type = py::module_::import("torch").attr("nn").attr("Parameter");
  parameter_type = reinterpret_cast<PyTypeObject*>(type.release().ptr());
  remat::record::set_parameter_test(&is_python_parameter);
  remat::record::set_sharding_test(&is_distributed);
}

void add_declarations(py::module_& m) {
  m.def("note_exposed", &note_exposed, py::arg("tensor"));
  m.def("open_function", &open_function, py::arg("name"));
  m.def("declare_replayable", &remat::record::Operator::declare_replayable, py::arg("name"));
}

/// `with VerifyScope():`, entered again as often as one likes.
class VerifyScope {
 public:
  void enter() { scopes_.push_back(std::make_unique<remat::record::VerifyScope>()); }
  void exit() { scopes_.pop_back(); }

 private:
  std::vector<std::unique_ptr<remat::record::VerifyScope>> scopes_;
};

void add_verification(py::module_& m) {
  py::class_<VerifyScope>(m, "VerifyScope")
      .def(py::init<>())
      .def("enter", &VerifyScope::enter)
      .def("exit", &VerifyScope::exit);
  m.def("set_module_name", &remat::record::set_module_name, py::arg("name"));
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "The C++ library behind the remat package.";
  m.attr("__version__") = REMAT_VERSION;
  remat::python::add_policies(m);
  add_regions(m);
  add_sessions(m);
  add_counters(m);
  add_gathering(m);
  add_declarations(m);
  add_verification(m);
  remat::python::add_saved_objects(m);
  remat::python::add_wrappers(m);
}
