#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "remat/record/recorder.h"
#include "remat/remat.h"

namespace py = pybind11;

namespace {

using remat::RegionOptions;
using remat::policy::Policy;

RegionOptions options(const Policy* policy, size_t segments) {
  RegionOptions chosen;
  if (policy != nullptr) chosen.policy = *policy;
  chosen.segments = segments;
  return chosen;
}

py::object call_in_region(const py::object& function, const py::tuple& args, const py::dict& kwargs,
                          const Policy* policy, size_t segments) {
  remat::Region region(options(policy, segments));
  py::object result = function(*args, **kwargs);
  region.close();
  return result;
}

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

void add_policies(py::module_& m) {
  py::class_<Policy>(m, "Policy", "A named pure function of an operator's facts that says what to keep.")
      .def_property_readonly("name", &Policy::name)
      .def("__repr__", [](const Policy& policy) { return "<remat policy " + policy.name() + ">"; });
  m.def("keep_ops", &remat::policy::keep_ops, py::arg("names"));
  m.def("policy_by_name", &remat::policy::by_name, py::arg("name"));
}

void add_regions(py::module_& m) {
  py::class_<remat::Region>(m, "Region", "An open region of this thread.")
      .def(py::init([](const Policy* policy, size_t segments) {
             return std::make_unique<remat::Region>(options(policy, segments));
           }),
           py::arg("policy").none(true), py::arg("segments"))
      .def("close", &remat::Region::close)
      .def_property_readonly("is_recording", &remat::Region::is_recording)
      .def("held_bytes", &remat::Region::held_bytes)
      .def("text", [](const remat::Region& region) { return to_text(region.tape()); })
      .def("dot", [](const remat::Region& region) { return to_dot(region.tape()); })
      .def("json", [](const remat::Region& region) { return to_json(region.tape()); });
  m.def("call_in_region", &call_in_region, py::arg("function"), py::arg("args"), py::arg("kwargs"),
        py::arg("policy").none(true), py::arg("segments"));
}

void add_counters(py::module_& m) {
  m.def("stats", &stats);
  m.def("reset_stats", &remat::reset_stats);
  m.def("open_nodes", &open_nodes);
  m.def("total_held_bytes", &remat::record::total_held_bytes);
  m.def("install_allocator", &remat::memory::install);
  m.def("allocator_is_installed", &remat::memory::is_installed);
  m.def("live_bytes", &remat::memory::live_bytes);
  m.def("peak_bytes", &remat::memory::peak_bytes);
  m.def("reset_peak", &remat::memory::reset_peak);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "The C++ library behind the remat package.";
  m.attr("__version__") = REMAT_VERSION;
  add_policies(m);
  add_regions(m);
  add_counters(m);
}
