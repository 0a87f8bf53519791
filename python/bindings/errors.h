// Statuses of the library as Python exceptions.
#pragma once

#include <string_view>

#include <pybind11/pybind11.h>

#include "nixl_types.h"

namespace nixl::python {

/// Adds the exception classes, each derived from Exception, to the module.
void defineErrors(pybind11::module_ &module);

/// Raises the exception of a negative status. Its text is the name of the status, then ": " and `cause`, if
/// any; programs look for the name in the text.
[[noreturn]] void raiseStatus(nixl_status_t status, std::string_view cause);

/// Passes NIXL_SUCCESS and NIXL_IN_PROG on and raises otherwise, with the cause that the calling thread's
/// last call on an agent left.
nixl_status_t checked(nixl_status_t status);

} // namespace nixl::python
