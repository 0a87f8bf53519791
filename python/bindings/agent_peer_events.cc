#include <chrono>
#include <string>

#include "agent.h"
#include "nixl_ext.h"
#include "text.h"
#include "util/concat.h"

namespace py = pybind11;

namespace nixl::python {
namespace {

using Event = nixlPeerEvent;
using Failed = nixlFailedNotif;

const char *
kindOf(const Event &event) {
    switch (event.kind) {
    case Event::Kind::kJoined:
        return "joined";
    case Event::Kind::kUpdated:
        return "updated";
    case Event::Kind::kStalled:
        return "stalled";
    case Event::Kind::kResumed:
        return "resumed";
    case Event::Kind::kLost:
        return "lost";
    case Event::Kind::kLeft:
        return "left";
    case Event::Kind::kUndelivered:
        return "undelivered";
    }
    return "unknown";
}

double
timeOf(const Event &event) {
    return std::chrono::duration<double>(event.when.time_since_epoch()).count();
}

py::typing::List<Event>
peerEvents(const nixlAgent &agent) {
    std::vector<Event> events;
    checked(withoutGil([&] { return nixlPeerEvents(agent, events); }));
    py::typing::List<Event> list;
    for (Event &event : events)
        list.append(std::move(event));
    return list;
}

py::typing::List<Failed>
failedNotifs(nixlAgent &agent) {
    std::vector<Failed> failed;
    checked(withoutGil([&] { return nixlFailedNotifs(agent, failed); }));
    py::typing::List<Failed> list;
    for (Failed &one : failed)
        list.append(std::move(one));
    return list;
}

} // namespace

void
definePeerEvents(py::module_ &module, AgentClass &agent) {
    py::class_<Event>(module, "nixlPeerEvent", "Something that happened to a peer.", py::module_local())
        .def_property_readonly("peer", [](const Event &self) { return decodeText(self.peer); })
        .def_property_readonly("kind", &kindOf,
                               "joined, updated, stalled, resumed, lost, left or undelivered.")
        .def_property_readonly("why", [](const Event &self) { return decodeText(self.why); })
        .def_property_readonly("time", &timeOf, "When it was seen: seconds, as time.time().")
        .def_readonly("dropped", &Event::dropped, "Events before this one that nobody took in time.")
        .def_property_readonly(
            "message", [](const Event &self) { return py::bytes(self.message); },
            "The notification, if it was undelivered.")
        .def("__repr__", [](const Event &self) {
            return decodeText(concat("<nixlPeerEvent ", self.peer, " ", kindOf(self), ": ", self.why, ">"));
        });
    py::class_<Failed>(
        module, "nixlFailedNotif",
        "A transfer of a peer that failed, and with it the notification that it would have brought.",
        py::module_local())
        .def_property_readonly("peer", [](const Failed &self) { return decodeText(self.peer); })
        .def_property_readonly("message", [](const Failed &self) { return py::bytes(self.message); })
        .def_property_readonly("why", [](const Failed &self) { return decodeText(self.why); })
        .def("__repr__", [](const Failed &self) {
            return decodeText(concat("<nixlFailedNotif ", self.peer, ": ", self.why, ">"));
        });
    agent.def("failedNotifs", &failedNotifs,
              "What peers said of transfers of theirs that failed, oldest first.");
    agent.def("peerEvents", &peerEvents, "What happened to peers since the last call, oldest first.");
}

} // namespace nixl::python
