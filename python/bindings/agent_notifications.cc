#include <string>

#include "agent.h"
#include "text.h"
#include "util/concat.h"

namespace py = pybind11;

namespace nixl::python {
namespace {

using py::literals::operator""_a;
using Handles = std::vector<Handle>;
using Messages = py::typing::Dict<py::str, py::typing::List<py::bytes>>;

/// A message or a name that the program put into a map.
std::string
textOf(py::handle object, const char *what) {
    std::string text;
    if (!encodeText(object, text))
        throw py::type_error(
            concat("notif_map: ", what, " is a ", Py_TYPE(object.ptr())->tp_name, ", neither str nor bytes"));
    return text;
}

/// A map of its own with what `map` holds.
Messages
copyMessages(const py::dict &map) {
    Messages copy;
    for (const auto &[name, messages] : map) {
        py::list list;
        for (const py::handle message : messages) {
            if (py::isinstance<py::bytes>(message))
                list.append(message);
            else
                list.append(py::bytes(textOf(message, "a message")));
        }
        copy[decodeText(textOf(name, "a name"))] = list;
    }
    return copy;
}

Messages
getNotifs(nixlAgent &agent, const py::typing::Dict<py::str, py::typing::List<py::bytes>> &map,
          const Handles &backends) {
    const nixl_opt_args_t options = withBackends(backends);
    // Whatever can be wrong with the arguments is found before messages are taken from the agent.
    Messages merged = copyMessages(map);
    nixl_notifs_t arrived;
    checked(withoutGil([&] { return agent.getNotifs(arrived, &options); }));
    for (const auto &[name, messages] : arrived) {
        const py::str key = decodeText(name);
        if (!merged.contains(key))
            merged[key] = py::list();
        auto list = py::reinterpret_borrow<py::list>(merged[key]);
        for (const nixl_blob_t &message : messages)
            list.append(py::bytes(message));
    }
    return merged;
}

nixl_status_t
genNotif(const nixlAgent &agent, const Text &remoteAgent, const Text &message, const Handles &backends) {
    const nixl_opt_args_t options = withBackends(backends);
    return checked(withoutGil([&] { return agent.genNotif(remoteAgent.value, message.value, &options); }));
}

} // namespace

void
defineNotifications(AgentClass &agent) {
    agent
        .def("getNotifs", &getNotifs, "notif_map"_a, "backends"_a = Handles(),
             "A new dict: what notif_map holds, and behind it what has arrived.")
        .def("genNotif", &genNotif, "remote_agent"_a, "msg"_a, "backends"_a = Handles());
}

} // namespace nixl::python
