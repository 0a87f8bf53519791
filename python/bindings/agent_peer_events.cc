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

} // namespace

void
definePeerEvents(py::module_ &module, AgentClass &agent) {
    py::class_<Event>(module, "nixlPeerEvent", "Something that happened to a peer.", py::module_local())
        .def_property_readonly("peer", [](const Event &self) { return decodeText(self.peer); })
        .def_property_readonly("kind", &kindOf, "joined, updated, stalled, resumed, lost or left.")
        .def_property_readonly("why", [](const Event &self) { return decodeText(self.why); })
        .def_property_readonly("time", &timeOf, "When it was seen: seconds, as time.time().")
        .def_readonly("dropped", &Event::dropped, "Events before this one that nobody took in time.")
        .def("__repr__", [](const Event &self) {
            return decodeText(concat("<nixlPeerEvent ", self.peer, " ", kindOf(self), ": ", self.why, ">"));
        });
    agent.def("peerEvents", &peerEvents, "What happened to peers since the last call, oldest first.");
}

} // namespace nixl::python
