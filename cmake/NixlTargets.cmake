# A folder is a target. Every source of the folder belongs to it.

# nixl_layer(NAME [DEPENDS layer...] [LIBRARIES lib...])  one layer of the core, a static library nixl_NAME.
function(nixl_layer name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  add_library(nixl_${name} STATIC ${sources})
  target_include_directories(nixl_${name} PUBLIC
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  foreach(layer IN LISTS ARG_DEPENDS)
    target_link_libraries(nixl_${name} PUBLIC nixl_${layer})
  endforeach()
  target_link_libraries(nixl_${name} PUBLIC Threads::Threads PRIVATE nixl_warnings ${ARG_LIBRARIES})
endfunction()

# nixl_test_folder(NAME [LIBRARIES lib...])  every *_test.cc of the folder in one GoogleTest program NAME.
function(nixl_test_folder name)
  cmake_parse_arguments(ARG "" "" "LIBRARIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main nixl_warnings)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endfunction()
