# What can be switched on, and the flags that every target of this project is compiled with.

option(REMAT_BUILD_PYTHON "Build the extension module remat._C" ${PROJECT_IS_TOP_LEVEL})
# A wheel is for Python: the command line would need libraries that pip cannot install.
if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED SKBUILD)
  set(REMAT_BUILD_APP_DEFAULT ON)
endif()
option(REMAT_BUILD_APP "Build the command line `remat`" ${REMAT_BUILD_APP_DEFAULT})
option(REMAT_BUILD_TESTS "Build the C++ tests" OFF)
option(REMAT_BUILD_BENCHMARKS "Build the C++ benchmarks" OFF)
option(REMAT_PCH "Precompile the libtorch headers" ON)
option(REMAT_WERROR "Treat warnings as errors" OFF)
set(REMAT_SANITIZE "" CACHE STRING "Sanitizers to compile with, as in -fsanitize=")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

# Without the sloppiness ccache refuses every unit that uses a precompiled header.
find_program(REMAT_CCACHE ccache)
if(REMAT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${REMAT_CCACHE})
endif()

# What users of the library see: nothing but the language. Ours are below.
add_library(remat_options INTERFACE)
target_compile_features(remat_options INTERFACE cxx_std_20)
target_include_directories(remat_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(remat_options INTERFACE
  # Executables too: a precompiled header is refused under another code model than its own.
  -fPIC
  $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>
  -Wall -Wextra -Wpedantic
  # GCC 12 sees an overlap in `"text" + std::string` that is not there (GCC bug 105651).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
  $<$<BOOL:${REMAT_WERROR}>:-Werror>)
# libtorch carries the headers of a newer fmt but not its library: linking Debian's would mix the two.
target_compile_definitions(remat_options INTERFACE FMT_HEADER_ONLY)
# In debug builds too: libtorch is a release build, and without NDEBUG at::RecordFunction asserts on a field that only a
# debug build of libtorch sets.
target_compile_definitions(remat_options INTERFACE $<$<CONFIG:Debug>:NDEBUG>)

if(REMAT_SANITIZE)
  target_compile_options(remat_options INTERFACE
    -fsanitize=${REMAT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
    # libtorch hides the type information that this check reads.
    -fno-sanitize=vptr)
  target_link_options(remat_options INTERFACE -fsanitize=${REMAT_SANITIZE})
endif()
