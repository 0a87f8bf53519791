#include <string>

#include "agent.h"
#include "desc_lists.h"
#include "text.h"

namespace py = pybind11;

namespace nixl::python {
namespace {

using py::literals::operator""_a;
using Handles = std::vector<Handle>;

/// Where metadata goes over the network; port 0: the default.
nixl_opt_args_t
withAddress(nixl_opt_args_t options, const Text &ipAddr, std::uint16_t port, const Text &label = {}) {
    options.ipAddr = ipAddr.value;
    if (port != 0)
        options.port = port;
    options.metadataLabel = label.value;
    return options;
}

nixl_status_t
makeConnection(nixlAgent &agent, const Text &name, const Handles &backends) {
    const nixl_opt_args_t options = withBackends(backends);
    return checked(withoutGil([&] { return agent.makeConnection(name.value, &options); }));
}

py::bytes
getLocalMD(const nixlAgent &agent) {
    nixl_blob_t blob;
    checked(withoutGil([&] { return agent.getLocalMD(blob); }));
    return blob;
}

py::bytes
getLocalPartialMD(const nixlAgent &agent, BoundRegList &descs, bool includeConnInfo,
                  const Handles &backends) {
    nixl_opt_args_t options = withBackends(backends);
    options.includeConnInfo = includeConnInfo;
    const BoundRegList::Reader list(descs);
    nixl_blob_t blob;
    checked(withoutGil([&] { return agent.getLocalPartialMD(*list, blob, &options); }));
    return blob;
}

py::bytes
loadRemoteMD(nixlAgent &agent, const Text &blob) {
    std::string name;
    checked(withoutGil([&] { return agent.loadRemoteMD(blob.value, name); }));
    return name;
}

nixl_status_t
invalidateRemoteMD(nixlAgent &agent, const Text &name) {
    return withoutGil([&] { return agent.invalidateRemoteMD(name.value); });
}

nixl_status_t
checkRemoteMD(const nixlAgent &agent, const Text &name, BoundXferList &descs) {
    const BoundXferList::Reader list(descs);
    return withoutGil([&] { return agent.checkRemoteMD(name.value, *list); });
}

void
sendLocalMD(const nixlAgent &agent, const Text &ipAddr, std::uint16_t port) {
    const nixl_opt_args_t options = withAddress({}, ipAddr, port);
    checked(withoutGil([&] { return agent.sendLocalMD(&options); }));
}

void
sendLocalPartialMD(const nixlAgent &agent, BoundRegList &descs, bool includeConnInfo, const Handles &backends,
                   const Text &ipAddr, std::uint16_t port, const Text &label) {
    nixl_opt_args_t options = withAddress(withBackends(backends), ipAddr, port, label);
    options.includeConnInfo = includeConnInfo;
    const BoundRegList::Reader list(descs);
    checked(withoutGil([&] { return agent.sendLocalPartialMD(*list, &options); }));
}

void
fetchRemoteMD(nixlAgent &agent, const Text &name, const Text &ipAddr, std::uint16_t port, const Text &label) {
    const nixl_opt_args_t options = withAddress({}, ipAddr, port, label);
    checked(withoutGil([&] { return agent.fetchRemoteMD(name.value, &options); }));
}

void
invalidateLocalMD(const nixlAgent &agent, const Text &ipAddr, std::uint16_t port) {
    const nixl_opt_args_t options = withAddress({}, ipAddr, port);
    checked(withoutGil([&] { return agent.invalidateLocalMD(&options); }));
}

} // namespace

void
defineMetadata(AgentClass &agent) {
    agent.def("makeConnection", &makeConnection, "remote_agent"_a, "backends"_a)
        .def("getLocalMD", &getLocalMD)
        .def("getLocalPartialMD", &getLocalPartialMD, "descs"_a, "inc_conn_info"_a = false,
             "backends"_a = Handles())
        .def("loadRemoteMD", &loadRemoteMD, "remote_metadata"_a, "The name of the agent that it describes.")
        .def("invalidateRemoteMD", &invalidateRemoteMD, "remote_agent"_a, "Returns errors, raises none.")
        .def("checkRemoteMD", &checkRemoteMD, "remote_agent"_a, "descs"_a, "Returns errors, raises none.")
        .def("sendLocalMD", &sendLocalMD, "ip_addr"_a = "", "port"_a = 0)
        .def("sendLocalPartialMD", &sendLocalPartialMD, "descs"_a, "inc_conn_info"_a = false,
             "backends"_a = Handles(), "ip_addr"_a = "", "port"_a = 0, "label"_a = "")
        .def("fetchRemoteMD", &fetchRemoteMD, "remote_agent"_a, "ip_addr"_a = "", "port"_a = 0,
             "label"_a = "")
        .def("invalidateLocalMD", &invalidateLocalMD, "ip_addr"_a = "", "port"_a = 0);
}

} // namespace nixl::python
