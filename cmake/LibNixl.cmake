# libnixl.so: the layers of the core and the engines that are always there, in one library, and how it is installed.

set(nixl_parts nixl_util nixl_wire nixl_memory nixl_engine nixl_telemetry nixl_agent
  nixl_engine_local nixl_engine_south_bound nixl_engine_ucx)

# Every object is taken, used or not: the exported interface is complete whatever a program calls.
add_library(nixl SHARED ${PROJECT_SOURCE_DIR}/engines/builtin.cc)
foreach(part IN LISTS nixl_parts)
  target_sources(nixl PRIVATE $<TARGET_OBJECTS:${part}>)
endforeach()
target_link_libraries(nixl PRIVATE ${nixl_parts} nixl_warnings)
target_compile_features(nixl PUBLIC cxx_std_20)
target_include_directories(nixl INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set(nixl_map ${PROJECT_SOURCE_DIR}/cmake/nixl.map)
# UCX, which stays loaded, calls back into it.
target_link_options(nixl PRIVATE -Wl,--version-script=${nixl_map} -Wl,-z,nodelete)
if(NOT NIXL_SANITIZE)
  target_link_options(nixl PRIVATE -Wl,-z,defs)
endif()
set_target_properties(nixl PROPERTIES
  LINK_DEPENDS ${nixl_map}
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
# A wheel holds no links, so the library carries its version in the name only where it is installed on a system.
if(NOT SKBUILD)
  set_target_properties(nixl PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
endif()

# In a wheel the folder of the package is the prefix and has one layout on every distribution.
if(SKBUILD)
  set(CMAKE_INSTALL_LIBDIR lib)
  set(CMAKE_INSTALL_INCLUDEDIR include)
endif()
install(TARGETS nixl EXPORT nixlTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")
# Engines that are loaded at run time are looked for here.
install(DIRECTORY DESTINATION ${CMAKE_INSTALL_LIBDIR}/plugins)

include(CMakePackageConfigHelpers)
set(nixl_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/nixl)
install(EXPORT nixlTargets NAMESPACE nixl:: DESTINATION ${nixl_package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/nixlConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/nixlConfig.cmake INSTALL_DESTINATION ${nixl_package_dir}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/nixlConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/nixlConfig.cmake ${PROJECT_BINARY_DIR}/package/nixlConfigVersion.cmake
  DESTINATION ${nixl_package_dir})

# The .pc file finds its prefix from its own place, so that a moved tree still works.
file(RELATIVE_PATH nixl_pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/nixl.pc.in ${PROJECT_BINARY_DIR}/package/nixl.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/nixl.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
