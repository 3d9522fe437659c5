# `cmake --install` gives another project what find_package(remat) needs.

include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/remat)
configure_package_config_file(cmake/rematConfig.cmake.in rematConfig.cmake
  INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(rematConfigVersion.cmake COMPATIBILITY SameMinorVersion)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME cpp)
install(TARGETS remat EXPORT remat-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY remat/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/remat
  FILES_MATCHING PATTERN "*.h" PATTERN pch.h EXCLUDE)
install(EXPORT remat-targets NAMESPACE remat:: DESTINATION ${package_dir})
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/rematConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/rematConfigVersion.cmake
  cmake/FindLibtorch.cmake
  DESTINATION ${package_dir})
