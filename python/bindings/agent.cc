#include "agent.h"

#include <string>
#include <utility>

#include "desc_lists.h"
#include "text.h"

namespace py = pybind11;

namespace nixl::python {
namespace {

using py::literals::operator""_a;
using Handles = std::vector<Handle>;
using Params = py::typing::Dict<py::str, py::str>;
using Description = py::typing::Tuple<Params, py::typing::List<py::str>>;

std::unique_ptr<nixlAgent, DeleteWithoutGil>
makeAgent(const Text &name, const nixlAgentConfig &config) {
    return withoutGil(
        [&] { return std::unique_ptr<nixlAgent, DeleteWithoutGil>(new nixlAgent(name.value, config)); });
}

Params
toDict(const nixl_b_params_t &params) {
    Params dict;
    for (const auto &[key, value] : params)
        dict[decodeText(key)] = decodeText(value);
    return dict;
}

Description
describeEngine(const nixl_mem_list_t &mems, const nixl_b_params_t &params) {
    py::typing::List<py::str> names;
    for (const nixl_mem_t mem : mems)
        names.append(nixlEnumStrings::memTypeStr(mem));
    return Description(py::make_tuple(toDict(params), names));
}

py::typing::List<py::str>
getAvailPlugins(nixlAgent &agent) {
    std::vector<nixl_backend_t> plugins;
    checked(withoutGil([&] { return agent.getAvailPlugins(plugins); }));
    py::typing::List<py::str> names;
    for (const nixl_backend_t &plugin : plugins)
        names.append(decodeText(plugin));
    return names;
}

Description
getPluginParams(const nixlAgent &agent, const Text &name) {
    nixl_mem_list_t mems;
    nixl_b_params_t params;
    checked(withoutGil([&] { return agent.getPluginParams(name.value, mems, params); }));
    return describeEngine(mems, params);
}

Description
getBackendParams(const nixlAgent &agent, Handle backend) {
    nixl_mem_list_t mems;
    nixl_b_params_t params;
    checked(
        withoutGil([&] { return agent.getBackendParams(fromHandle<nixlBackendH>(backend), mems, params); }));
    return describeEngine(mems, params);
}

Handle
createBackend(nixlAgent &agent, const Text &name,
              const std::unordered_map<std::string, std::string> &params) {
    nixlBackendH *backend = nullptr;
    checked(withoutGil([&] { return agent.createBackend(name.value, params, backend); }));
    return toHandle(backend);
}

nixl_status_t
registerMem(nixlAgent &agent, BoundRegList &descs, const Handles &backends) {
    const nixl_opt_args_t options = withBackends(backends);
    const BoundRegList::Reader list(descs);
    return checked(withoutGil([&] { return agent.registerMem(*list, &options); }));
}

nixl_status_t
deregisterMem(nixlAgent &agent, BoundRegList &descs, const Handles &backends) {
    const nixl_opt_args_t options = withBackends(backends);
    const BoundRegList::Reader list(descs);
    return checked(withoutGil([&] { return agent.deregisterMem(*list, &options); }));
}

py::typing::List<py::typing::Optional<Params>>
queryMem(const nixlAgent &agent, BoundRegList &descs, Handle backend) {
    const nixl_opt_args_t options = withBackends({backend});
    const BoundRegList::Reader list(descs);
    std::vector<nixl_query_resp_t> answers;
    checked(withoutGil([&] { return agent.queryMem(*list, answers, &options); }));
    py::typing::List<py::typing::Optional<Params>> result;
    for (const nixl_query_resp_t &answer : answers)
        result.append(answer ? py::object(toDict(*answer)) : py::none());
    return result;
}

} // namespace

AgentClass
defineAgent(py::module_ &module) {
    AgentClass agent(module, "nixlAgent", "Registers memory, learns about peers, moves blocks between them.",
                     py::module_local());
    agent.def(py::init(&makeAgent), "name"_a, "config"_a)
        .def("getAvailPlugins", &getAvailPlugins)
        .def("getPluginParams", &getPluginParams, "name"_a)
        .def("getBackendParams", &getBackendParams, "backend"_a)
        .def("createBackend", &createBackend, "name"_a, "params"_a)
        .def("registerMem", &registerMem, "descs"_a, "backends"_a = Handles())
        .def("deregisterMem", &deregisterMem, "descs"_a, "backends"_a = Handles())
        .def("queryMem", &queryMem, "descs"_a, "backend"_a);
    return agent;
}

} // namespace nixl::python
