# What is built. A part that is asked for and cannot be built fails the configuration.
option(NIXL_BUILD_TESTS "Tests; needs GoogleTest" ON)
option(NIXL_BUILD_EXAMPLES "Examples, among them a south-bound plugin" ON)
option(NIXL_BUILD_PYTHON "Python bindings; needs pybind11" ON)
option(NIXL_BUILD_BENCHMARKS "Benchmarks; needs Google Benchmark" OFF)
option(NIXL_BUILD_FUZZERS "Fuzz targets; needs clang" OFF)
option(NIXL_WERROR "Warnings are errors" OFF)
set(NIXL_SANITIZE "" CACHE STRING "address, thread, or empty: build everything with that sanitizer")
