// The enumerations of the interface as Python enumerations, their members also in the module.
#pragma once

#include <pybind11/pybind11.h>

namespace nixl::python {

void defineEnums(pybind11::module_ &module);

} // namespace nixl::python
