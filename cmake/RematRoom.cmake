# remat_room(<name> [LIBTORCH])
#
# One folder of remat/ as one target, remat_<name>. A room without LIBTORCH is compiled without
# libtorch's headers on its path, so that a careless include fails at once.
function(remat_room name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LIBTORCH" "" "")
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  if(NOT sources)
    message(STATUS "room ${name} has no sources")
    return()
  endif()

  add_library(remat_${name} OBJECT ${sources})
  target_link_libraries(remat_${name} PRIVATE remat_options nlohmann_json::nlohmann_json)
  if(arg_LIBTORCH)
    remat_use_libtorch(remat_${name})
  endif()
  target_link_libraries(remat PRIVATE remat_${name})
endfunction()

# remat_use_libtorch(<target>)
#
# Compiles a target of ours against libtorch, through the one precompiled header.
function(remat_use_libtorch target)
  target_link_libraries(${target} PRIVATE libtorch::libtorch)
  if(REMAT_PCH)
    target_precompile_headers(${target} REUSE_FROM remat_pch)
  endif()
endfunction()
