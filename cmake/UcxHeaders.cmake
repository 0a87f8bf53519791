# The headers of UCX, for engines/ucx. UCX itself is opened at run time and never linked.
#
# Looked for in NIXL_UCX_ROOT if that is given, else in the wheel `libucx` of the Python that the build uses or of the
# .venv of ./dev setup, else where the compiler finds them.
set(NIXL_UCX_ROOT "" CACHE PATH "Prefix of a UCX whose headers are used; empty: the Python wheel libucx, or the system's")
set(nixl_ucx_headers_minimum 1.22)

function(nixl_find_ucx_wheel result)
  foreach(python IN ITEMS "${Python_EXECUTABLE}" "${Python3_EXECUTABLE}" ${PROJECT_SOURCE_DIR}/.venv/bin/python python3)
    if(python)
      # Found without being imported: nothing of the package runs.
      execute_process(
        COMMAND ${python} -c
          "import importlib.util as u; s = u.find_spec('libucx'); print(list(s.submodule_search_locations)[0] if s else '')"
        OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      if(folder)
        set(${result} ${folder} PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()

set(nixl_ucx_root ${NIXL_UCX_ROOT})
if(NOT nixl_ucx_root)
  nixl_find_ucx_wheel(nixl_ucx_root)
endif()
if(nixl_ucx_root)
  set(nixl_ucx_include ${nixl_ucx_root}/include)
  set(nixl_ucx_configured_dir ${nixl_ucx_root}/lib)
else()
  find_path(NIXL_UCX_INCLUDE_DIR ucp/api/ucp.h)
  mark_as_advanced(NIXL_UCX_INCLUDE_DIR)
  set(nixl_ucx_include ${NIXL_UCX_INCLUDE_DIR})
  set(nixl_ucx_configured_dir "")
endif()

set(nixl_ucx_version "")
if(EXISTS ${nixl_ucx_include}/ucp/api/ucp_version.h)
  file(STRINGS ${nixl_ucx_include}/ucp/api/ucp_version.h nixl_ucx_lines REGEX "define UCP_API_(MAJOR|MINOR)")
  string(REGEX REPLACE ".*UCP_API_MAJOR +([0-9]+).*UCP_API_MINOR +([0-9]+).*" "\\1.\\2" nixl_ucx_version
    "${nixl_ucx_lines}")
endif()
if(NOT nixl_ucx_version OR nixl_ucx_version VERSION_LESS nixl_ucx_headers_minimum)
  message(FATAL_ERROR "The engine UCX needs the headers of UCX ${nixl_ucx_headers_minimum} or newer; found: "
    "'${nixl_ucx_version}' in '${nixl_ucx_include}'. Install the wheel libucx-cu13 (or libucx-cu12) for the Python that "
    "the build uses (-DPython_EXECUTABLE=...), or name the prefix of a UCX with -DNIXL_UCX_ROOT=...")
endif()
message(STATUS "UCX headers ${nixl_ucx_version}: ${nixl_ucx_include}")
