# Finds the libtorch inside the torch package of Python_EXECUTABLE, or the one at Libtorch_ROOT or on
# CMAKE_PREFIX_PATH.
#
#   libtorch::libtorch   headers (as system headers) and the libraries of a C++ process
#   libtorch::python     the same and libtorch_python, for extension modules
#   Libtorch_VERSION     for example 2.13.0
#   Libtorch_PREFIX      the folder of its include and lib
#
# PyTorch's own TorchConfig.cmake is not used: under a CUDA build of PyTorch it stops when no CUDA
# toolkit is installed, which code that only calls public ATen interfaces does not need.

if(NOT Libtorch_ROOT)
  find_package(Python COMPONENTS Interpreter QUIET)
  # find_spec does not run torch: importing it takes seconds.
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
      "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE _libtorch_of_python OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()

find_path(Libtorch_INCLUDE_DIR ATen/core/Tensor.h
  HINTS ${Libtorch_ROOT} ${_libtorch_of_python} PATH_SUFFIXES include)
get_filename_component(Libtorch_PREFIX "${Libtorch_INCLUDE_DIR}" DIRECTORY)
foreach(_lib torch torch_cpu c10 torch_python)
  find_library(Libtorch_${_lib}_LIBRARY ${_lib} HINTS ${Libtorch_PREFIX}/lib NO_DEFAULT_PATH)
  mark_as_advanced(Libtorch_${_lib}_LIBRARY)
endforeach()
mark_as_advanced(Libtorch_INCLUDE_DIR)

if(EXISTS ${Libtorch_INCLUDE_DIR}/torch/headeronly/version.h)
  file(STRINGS ${Libtorch_INCLUDE_DIR}/torch/headeronly/version.h _libtorch_version
       REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
  string(REGEX REPLACE "[^0-9;]+" "" _libtorch_version "${_libtorch_version}")
  list(JOIN _libtorch_version "." Libtorch_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libtorch
  REQUIRED_VARS Libtorch_torch_LIBRARY Libtorch_torch_cpu_LIBRARY Libtorch_c10_LIBRARY
                Libtorch_INCLUDE_DIR
  VERSION_VAR Libtorch_VERSION
  HANDLE_VERSION_RANGE
  REASON_FAILURE_MESSAGE
    "Install torch for Python (pip install torch==2.13.0) and give -DPython_EXECUTABLE=<that python>, \
or give -DLibtorch_ROOT=<folder of libtorch>.")

function(_libtorch_import name)
  add_library(libtorch::${name} SHARED IMPORTED)
  set_target_properties(libtorch::${name} PROPERTIES IMPORTED_LOCATION ${Libtorch_${name}_LIBRARY})
endfunction()

if(Libtorch_FOUND AND NOT TARGET libtorch::libtorch)
  _libtorch_import(torch_cpu)
  _libtorch_import(c10)
  add_library(libtorch::libtorch INTERFACE IMPORTED)
  target_link_libraries(libtorch::libtorch INTERFACE
    # Nothing refers to it, but it loads the other backends (CUDA): a linker drops it unless told.
    -Wl,--push-state,--no-as-needed,${Libtorch_torch_LIBRARY},--pop-state
    libtorch::torch_cpu libtorch::c10)
  target_include_directories(libtorch::libtorch SYSTEM INTERFACE
    ${Libtorch_INCLUDE_DIR} ${Libtorch_INCLUDE_DIR}/torch/csrc/api/include)

  if(Libtorch_torch_python_LIBRARY)
    _libtorch_import(torch_python)
    add_library(libtorch::python INTERFACE IMPORTED)
    target_link_libraries(libtorch::python INTERFACE libtorch::torch_python libtorch::libtorch)
  endif()
endif()
