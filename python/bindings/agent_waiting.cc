// Waits without the GIL. Signals of the system reach a Python handler within kSlice.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>

#include "agent.h"
#include "nixl_ext.h"
#include "text.h"

namespace py = pybind11;

namespace nixl::python {
namespace {

using py::literals::operator""_a;
using Handles = std::vector<Handle>;
using Messages = py::typing::Dict<py::str, py::typing::List<py::bytes>>;
using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr microseconds kSlice{100000};

/// The end of a wait of that many seconds; nothing: for ever.
class Deadline {
public:
    explicit Deadline(const std::optional<double> &seconds) {
        if (!seconds)
            return;
        if (std::isnan(*seconds))
            throw py::value_error("timeout is not a number");
        constexpr double kLongest = 1e9; // some thirty years
        limit_ =
            Clock::now() + microseconds(static_cast<std::int64_t>(std::clamp(*seconds, 0.0, kLongest) * 1e6));
    }

    /// Until the next look at signals.
    microseconds
    slice() const {
        if (!limit_)
            return kSlice;
        const auto left = std::chrono::ceil<microseconds>(*limit_ - Clock::now());
        return std::clamp(left, microseconds(0), kSlice);
    }

    bool
    over() const {
        return limit_ && Clock::now() >= *limit_;
    }

private:
    std::optional<Clock::time_point> limit_;
};

/// Calls `wait(slice)` until it answers anything but NIXL_IN_PROG or the time is up; raises errors.
template<typename Wait>
nixl_status_t
waitInSlices(const std::optional<double> &timeout, Wait wait) {
    const Deadline deadline(timeout);
    for (;;) {
        const nixl_status_t status = checked(withoutGil([&] { return wait(deadline.slice()); }));
        if (status != NIXL_IN_PROG || deadline.over())
            return status;
        if (PyErr_CheckSignals() != 0)
            throw py::error_already_set();
    }
}

std::vector<nixlXferReqH *>
requestsOf(const Handles &handles) {
    std::vector<nixlXferReqH *> requests;
    requests.reserve(handles.size());
    for (const Handle handle : handles)
        requests.push_back(fromHandle<nixlXferReqH>(handle));
    return requests;
}

nixl_status_t
wait(const nixlAgent &agent, Handle request, const std::optional<double> &timeout) {
    return waitInSlices(timeout, [&](microseconds slice) {
        return nixlWait(agent, fromHandle<nixlXferReqH>(request), slice);
    });
}

std::optional<std::size_t>
waitAny(const nixlAgent &agent, const Handles &handles, const std::optional<double> &timeout) {
    const auto requests = requestsOf(handles);
    std::size_t which = 0;
    const nixl_status_t status =
        waitInSlices(timeout, [&](microseconds slice) { return nixlWaitAny(agent, requests, which, slice); });
    return status == NIXL_SUCCESS ? std::optional(which) : std::nullopt;
}

nixl_status_t
waitAll(const nixlAgent &agent, const Handles &handles, const std::optional<double> &timeout) {
    const auto requests = requestsOf(handles);
    return waitInSlices(timeout, [&](microseconds slice) { return nixlWaitAll(agent, requests, slice); });
}

Messages
waitNotifs(nixlAgent &agent, const std::optional<double> &timeout, const Handles &backends) {
    const nixl_opt_args_t options = withBackends(backends);
    nixl_notifs_t arrived;
    (void)waitInSlices(timeout,
                       [&](microseconds slice) { return nixlWaitNotifs(agent, arrived, slice, &options); });
    Messages messages;
    for (const auto &[name, texts] : arrived) {
        py::list list;
        for (const nixl_blob_t &text : texts)
            list.append(py::bytes(text));
        messages[decodeText(name)] = list;
    }
    return messages;
}

nixlWatch
watch(const nixlAgent &agent) {
    nixlWatch made;
    checked(withoutGil([&] { return nixlWatchActivity(agent, made); }));
    return made;
}

} // namespace

void
defineWaiting(py::module_ &module, AgentClass &agent) {
    py::class_<nixlWatch>(
        module, "nixlWatch",
        "A descriptor that becomes readable when something happens at an agent; closed with "
        "the object.",
        py::module_local())
        .def("fileno", &nixlWatch::fd)
        .def("clear", &nixlWatch::clear,
             "Not readable any more until the next event. What happened before is seen by a look from now "
             "on.");
    agent
        .def("wait", &wait, "reqh"_a, "timeout"_a = py::none(),
             "The state once the transfer has ended, or after that many seconds.")
        .def("waitAny", &waitAny, "reqhs"_a, "timeout"_a = py::none(),
             "The position of the first that is not in progress; None after the timeout.")
        .def("waitAll", &waitAll, "reqhs"_a, "timeout"_a = py::none(),
             "NIXL_SUCCESS once all are done, NIXL_IN_PROG after the timeout. The first failure is raised "
             "once "
             "all have ended.")
        .def("waitNotifs", &waitNotifs, "timeout"_a = py::none(), "backends"_a = Handles(),
             "What has arrived, as soon as there is something; empty after the timeout.")
        .def("watch", &watch, "A nixlWatch with events of its own.");
}

} // namespace nixl::python
