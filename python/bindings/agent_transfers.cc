#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <tuple>

#include "agent.h"
#include "arrays.h"
#include "desc_lists.h"
#include "nixl_ext.h"
#include "text.h"

namespace py = pybind11;

namespace nixl::python {
namespace {

using py::literals::operator""_a;
using Handles = std::vector<Handle>;

// An N x 5 array of 64-bit integers is what a list of nixlStrideDesc holds.
static_assert(std::is_trivially_copyable_v<nixlStrideDesc> && sizeof(nixlStrideDesc) == 40);

nixl_opt_args_t
withNotification(const Handles &backends, const Text &message) {
    nixl_opt_args_t options = withBackends(backends);
    if (!message.value.empty())
        options.notif = message.value;
    return options;
}

Handle
prepXferDlist(const nixlAgent &agent, const Text &name, BoundXferList &descs, const Handles &backends) {
    const nixl_opt_args_t options = withBackends(backends);
    const BoundXferList::Reader list(descs);
    nixlDlistH *prepared = nullptr;
    checked(withoutGil([&] { return agent.prepXferDlist(name.value, *list, prepared, &options); }));
    return toHandle(prepared);
}

Handle
prepLocalDlist(const nixlAgent &agent, BoundXferList &descs, const Handles &backends) {
    return prepXferDlist(agent, Text{NIXL_INIT_AGENT}, descs, backends);
}

Handle
prepStridedDlist(const nixlAgent &agent, const Text &name, nixl_mem_t type, const ArrayArgument &descs,
                 const Handles &backends) {
    const IntegerTable table(descs, 5);
    nixl_stride_dlist_t list(type, static_cast<int>(table.rows()));
    if (table.rows() > 0)
        std::memcpy(&list[0], table.data(), table.rows() * sizeof(nixlStrideDesc));
    const nixl_opt_args_t options = withBackends(backends);
    nixlDlistH *prepared = nullptr;
    checked(withoutGil([&] { return agent.prepXferDlist(name.value, list, prepared, &options); }));
    return toHandle(prepared);
}

Handle
makeXferReq(const nixlAgent &agent, nixl_xfer_op_t operation, Handle localSide,
            const IndexArgument &localIndices, Handle remoteSide, const IndexArgument &remoteIndices,
            const Text &notification, const Handles &backends, bool skipDescMerge) {
    const Indices local(localIndices, "local_indices");
    const Indices remote(remoteIndices, "remote_indices");
    nixl_opt_args_t options = withNotification(backends, notification);
    options.skipDescMerge = skipDescMerge;
    const auto *localList = fromHandle<nixlDlistH>(localSide);
    const auto *remoteList = fromHandle<nixlDlistH>(remoteSide);
    nixlXferReqH *request = nullptr;
    checked(withoutGil([&] {
        // Only the overload with pointers can be told of a null handle.
        if (localList == nullptr || remoteList == nullptr)
            return agent.makeXferReq(operation, localList, {}, remoteList, {}, request, &options);
        return agent.makeXferReq(operation, *localList, local.span(), *remoteList, remote.span(), request,
                                 &options);
    }));
    return toHandle(request);
}

Handle
createXferReq(const nixlAgent &agent, nixl_xfer_op_t operation, BoundXferList &localDescs,
              BoundXferList &remoteDescs, const Text &remoteAgent, const Text &notification,
              const Handles &backends) {
    const nixl_opt_args_t options = withNotification(backends, notification);
    const BoundXferList::Reader local(localDescs);
    const BoundXferList::Reader remote(remoteDescs);
    nixlXferReqH *request = nullptr;
    checked(withoutGil([&] {
        return agent.createXferReq(operation, *local, *remote, remoteAgent.value, request, &options);
    }));
    return toHandle(request);
}

std::tuple<std::int64_t, std::int64_t, int>
estimateXferCost(const nixlAgent &agent, Handle request) {
    std::chrono::microseconds duration{0};
    std::chrono::microseconds margin{0};
    nixl_cost_t method = nixl_cost_t::ANALYTICAL_BACKEND;
    checked(withoutGil(
        [&] { return agent.estimateXferCost(fromHandle<nixlXferReqH>(request), duration, margin, method); }));
    return {duration.count(), margin.count(), static_cast<int>(method)};
}

/// Rounded up, since 0 is no limit; days enough are none either.
std::chrono::milliseconds
milliseconds(double seconds) {
    constexpr double kMost = 1e12;
    if (!(seconds >= 0))
        throw py::value_error("a timeout is at least 0 seconds");
    return std::chrono::milliseconds(
        seconds * 1e3 > kMost ? 0 : static_cast<std::int64_t>(std::ceil(seconds * 1e3)));
}

nixl_status_t
postXferReq(const nixlAgent &agent, Handle request, const Text &notification, std::optional<double> timeout) {
    const nixl_opt_args_t options = withNotification({}, notification);
    // Options without a message would clear the one that the request has; none at all keep it.
    const nixl_opt_args_t *extra = options.notif ? &options : nullptr;
    auto *posted = fromHandle<nixlXferReqH>(request);
    const auto limit = timeout ? std::optional(milliseconds(*timeout)) : std::nullopt;
    return checked(withoutGil(
        [&] { return limit ? nixlPost(agent, posted, *limit, extra) : agent.postXferReq(posted, extra); }));
}

bool
cancelXferReq(const nixlAgent &agent, Handle request) {
    return checked(withoutGil([&] { return nixlCancel(agent, fromHandle<nixlXferReqH>(request)); })) ==
           NIXL_SUCCESS;
}

bool
drain(const nixlAgent &agent, double timeout) {
    const std::chrono::milliseconds limit(static_cast<std::int64_t>(std::clamp(timeout, 0.0, 1e6) * 1e3));
    return checked(withoutGil([&] { return nixlDrain(agent, limit); })) == NIXL_SUCCESS;
}

bool
isQuiet(const nixlAgent &agent, Handle request) {
    bool quiet = false;
    checked(withoutGil([&] { return nixlIsQuiet(agent, fromHandle<nixlXferReqH>(request), quiet); }));
    return quiet;
}

nixl_status_t
getXferStatus(const nixlAgent &agent, Handle request) {
    return checked(withoutGil([&] { return agent.getXferStatus(fromHandle<nixlXferReqH>(request)); }));
}

nixlXferTelemetry
getXferTelemetry(const nixlAgent &agent, Handle request) {
    nixlXferTelemetry telemetry;
    const nixl_status_t status = checked(
        withoutGil([&] { return agent.getXferTelemetry(fromHandle<nixlXferReqH>(request), telemetry); }));
    // A request that is not done has no telemetry yet; an object of zeros would say that it took no time.
    if (status == NIXL_IN_PROG)
        raiseStatus(NIXL_ERR_NO_TELEMETRY, "the transfer is still in progress (NIXL_IN_PROG)");
    return telemetry;
}

Handle
queryXferBackend(const nixlAgent &agent, Handle request) {
    nixlBackendH *backend = nullptr;
    checked(withoutGil([&] { return agent.queryXferBackend(fromHandle<nixlXferReqH>(request), backend); }));
    return toHandle(backend);
}

nixl_status_t
releaseXferReq(const nixlAgent &agent, Handle request) {
    return checked(withoutGil([&] { return agent.releaseXferReq(fromHandle<nixlXferReqH>(request)); }));
}

nixl_status_t
releasedDlistH(const nixlAgent &agent, Handle prepared) {
    return checked(withoutGil([&] { return agent.releasedDlistH(fromHandle<nixlDlistH>(prepared)); }));
}

template<typename List>
Handle
prepMemView(const nixlAgent &agent, List &descs, const Handles &backends) {
    const nixl_opt_args_t options = withBackends(backends);
    const typename List::Reader list(descs);
    nixlMemViewH view = nullptr;
    checked(withoutGil([&] { return agent.prepMemView(*list, view, &options); }));
    return toHandle(view);
}

void
releaseMemView(const nixlAgent &agent, Handle view) {
    withoutGil([&] { agent.releaseMemView(reinterpret_cast<nixlMemViewH>(view)); });
}

} // namespace

void
defineTransfers(AgentClass &agent) {
    agent
        .def("prepXferDlist", &prepXferDlist, "agent_name"_a, "descs"_a, "backend"_a = Handles(),
             "agent_name \"\" (NIXL_INIT_AGENT): this agent's memory as the local side.")
        .def("prepXferDlist", &prepLocalDlist, "descs"_a, "backend"_a = Handles())
        .def("prepXferDlist", &prepStridedDlist, "agent_name"_a, "mem_type"_a, "descs"_a,
             "backend"_a = Handles(),
             "From a C-contiguous Nx5 array of uint64 or int64 with rows (addr, len, dev_id, stride, count).")
        .def("makeXferReq", &makeXferReq, "operation"_a, "local_side"_a, "local_indices"_a, "remote_side"_a,
             "remote_indices"_a, "notif_msg"_a = "", "backend"_a = Handles(), "skip_desc_merg"_a = false,
             "Arrays of indices must not be written to by other threads during the call.")
        .def("createXferReq", &createXferReq, "operation"_a, "local_descs"_a, "remote_descs"_a,
             "remote_agent"_a, "notif_msg"_a = "", "backend"_a = Handles())
        .def("estimateXferCost", &estimateXferCost, "req_handle"_a,
             "(duration, margin of error, method); microseconds.")
        .def("postXferReq", &postXferReq, "reqh"_a, "notif_msg"_a = "", "timeout"_a = py::none(),
             "timeout: seconds, 0: none.")
        .def("getXferStatus", &getXferStatus, "reqh"_a)
        .def("drain", &drain, "timeout"_a,
             "Waits until no transfer runs, and cancels those that do after that many seconds. Whether local "
             "memory "
             "is quiet.")
        .def("cancelXferReq", &cancelXferReq, "reqh"_a, "Whether local memory is quiet now.")
        .def("isQuiet", &isQuiet, "reqh"_a)
        .def("getXferTelemetry", &getXferTelemetry, "reqh"_a)
        .def("queryXferBackend", &queryXferBackend, "reqh"_a)
        .def("releaseXferReq", &releaseXferReq, "reqh"_a)
        .def("releasedDlistH", &releasedDlistH, "dlist"_a)
        .def("prepMemView", &prepMemView<BoundXferList>, "dlist"_a, "backends"_a = Handles())
        .def("prepMemView", &prepMemView<BoundRemoteList>, "dlist"_a, "backends"_a = Handles())
        .def("releaseMemView", &releaseMemView, "mvh"_a);
}

} // namespace nixl::python
