// nixl._bindings: the C++ interface for Python.
#include <pybind11/pybind11.h>

#include "agent.h"
#include "desc_lists.h"
#include "enums.h"
#include "errors.h"
#include "nixl_ext.h"

PYBIND11_MODULE(_bindings, module) {
    module.doc() = "NIXL descriptors and lists, and the C++ interface of the agent.";
    nixl::python::defineEnums(module);
    nixl::python::defineErrors(module);
    nixl::python::defineDescLists(module);
    nixl::python::defineSerializing(module);
    nixl::python::defineAgentTypes(module);
    nixl::python::AgentClass agent = nixl::python::defineAgent(module);
    nixl::python::defineTransfers(agent);
    nixl::python::defineNotifications(agent);
    nixl::python::defineMetadata(agent);
    nixl::python::definePeerEvents(module, agent);
    nixl::python::defineExplanations(module, agent);
    nixl::python::defineWaiting(module, agent);
    nixl::python::defineMemory(module);
    module.def("add_libucx", &nixl_add_libucx, pybind11::arg("folder"),
               "Names the folder of a package libucx whose UCX may be used.");
    module.attr("DEFAULT_COMM_PORT") = default_comm_port;
    module.attr("NIXL_INIT_AGENT") = NIXL_INIT_AGENT;
    module.attr("HAVE_UCX_GPU_DEVICE_API") = false;
    module.attr("__version__") = nixl_version();
}
