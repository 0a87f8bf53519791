// nixlAgent as a Python class. Every call converts its arguments first, runs without the GIL, and raises what
// failed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "errors.h"
#include "gil.h"
#include "nixl.h"

namespace nixl::python {

/// The end of an agent waits for transfers and threads, which must not need the GIL.
struct DeleteWithoutGil {
    void
    operator()(nixlAgent *agent) const {
        withoutGil([agent] { delete agent; });
    }
};

using AgentClass = pybind11::class_<nixlAgent, std::unique_ptr<nixlAgent, DeleteWithoutGil>>;

/// A backend, request, prepared list or view: Python knows it as a number, the agent checks it.
using Handle = std::uintptr_t;

template<typename Object>
Object *
fromHandle(Handle handle) {
    return reinterpret_cast<Object *>(handle);
}

inline Handle
toHandle(const void *object) {
    return reinterpret_cast<Handle>(object);
}

/// Optional arguments that name these engines; none: the agent decides.
inline nixl_opt_args_t
withBackends(const std::vector<Handle> &backends) {
    nixl_opt_args_t options;
    options.backends.reserve(backends.size());
    for (const Handle backend : backends)
        options.backends.push_back(fromHandle<nixlBackendH>(backend));
    return options;
}

/// Adds nixlAgentConfig and nixlXferTelemetry.
void defineAgentTypes(pybind11::module_ &module);
/// Adds nixlAgent: engines and memory; the functions below add the rest to the class.
AgentClass defineAgent(pybind11::module_ &module);
void defineTransfers(AgentClass &agent);
void defineNotifications(AgentClass &agent);
void defineMetadata(AgentClass &agent);
/// Adds nixlWatch, and waiting to nixlAgent.
void defineWaiting(pybind11::module_ &module, AgentClass &agent);
/// Adds nixlPeerEvent and nixlAgent.peerEvents.
void definePeerEvents(pybind11::module_ &module, AgentClass &agent);
/// Adds nixlMemory, alloc and share_memfd.
void defineMemory(pybind11::module_ &module);
/// Adds nixlPathExplanation, nixlPathOption and nixlAgent.explain.
void defineExplanations(pybind11::module_ &module, AgentClass &agent);

} // namespace nixl::python
