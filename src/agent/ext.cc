// The additions of nixl_ext.h.
#include "nixl_ext.h"

#include "agent/agent_access.h"
#include "agent/edge.h"
#include "memory/sealed_memory.h"
#include "util/concat.h"
#include "util/log.h"

#ifndef NIXL_VERSION
#error "the build defines NIXL_VERSION"
#endif

const char *
nixl_version() {
    return NIXL_VERSION;
}

const char *
nixl_last_error() {
    return nixl::lastError().c_str();
}

namespace {

/// Outside of an agent: text and log line, as for calls on one.
nixl_status_t
refuse(const char *function, const nixl::Status &status) {
    nixl::setLastError(status.message());
    NIXL_LOG(kError, function, ": ", nixlEnumStrings::statusStr(status.code()), ": ", status.message());
    return status.code();
}

/// Runs `body(agent's data, request)` if the handle names a request of the agent.
template<typename Body>
nixl_status_t
onRequest(const nixlAgent &agent, const char *function, const nixlXferReqH *request, Body body) {
    nixlAgentData &data = nixlAgentAccess::data(agent);
    return nixl::call(data, function, [&]() -> nixl::Status {
        const auto found = data.requests.find(request);
        if (!found)
            return nixl::notALiveRequest();
        body(data, *found);
        return {};
    });
}

} // namespace

void *
nixlMemory::data() const {
    return memory_ ? reinterpret_cast<void *>(memory_->address()) : nullptr;
}

std::size_t
nixlMemory::size() const {
    return memory_ ? memory_->bytes() : 0;
}

std::size_t
nixlMemory::pageSize() const {
    return memory_ ? memory_->pageBytes() : 0;
}

std::string
nixlMemory::note() const {
    return memory_ ? memory_->note() : std::string();
}

nixl_status_t
nixlAlloc(std::size_t bytes, nixlMemory &memory, bool hugePages) {
    auto made = nixl::SealedMemory::create(bytes, hugePages);
    if (!made.ok())
        return refuse("nixlAlloc", made.status());
    memory = nixlMemory(std::move(made).value());
    return NIXL_SUCCESS;
}

nixl_status_t
nixlShareMemfd(int fd, void *address, std::size_t bytes, nixlMemory &memory) {
    auto shared = nixl::SealedMemory::adopt(fd, reinterpret_cast<std::uint64_t>(address), bytes);
    if (!shared.ok())
        return refuse("nixlShareMemfd", shared.status());
    memory = nixlMemory(std::move(shared).value());
    return NIXL_SUCCESS;
}

nixl_status_t
nixlExplain(const nixlAgent &agent, const nixlXferReqH *request, nixlPathExplanation &explanation) {
    return onRequest(agent, "nixlExplain", request,
                     [&](nixlAgentData &, const nixlXferReqH &found) { explanation = found.explanation(); });
}

nixl_status_t
nixlPost(const nixlAgent &agent, nixlXferReqH *request, std::chrono::milliseconds timeout,
         const nixl_opt_args_t *extra_params) {
    nixlAgentData &data = nixlAgentAccess::data(agent);
    if (timeout.count() < 0)
        return nixl::call(data, "nixlPost", [&] {
            return nixl::Status::error(NIXL_ERR_INVALID_PARAM, "a timeout of ", timeout.count(), " ms");
        });
    nixl::RequestState state;
    const nixl_status_t status =
        onRequest(agent, "nixlPost", request, [&](nixlAgentData &owner, nixlXferReqH &found) {
            state = owner.post(found, extra_params, timeout);
        });
    return status != NIXL_SUCCESS ? status : nixl::reportState(data, "nixlPost", state);
}

nixl_status_t
nixlCancel(const nixlAgent &agent, nixlXferReqH *request) {
    bool quiet = false;
    const nixl_status_t status =
        onRequest(agent, "nixlCancel", request, [&](nixlAgentData &owner, nixlXferReqH &found) {
            quiet = found.cancel("cancelled by the program");
            owner.activity->signal(); // for others who wait for it
        });
    return status != NIXL_SUCCESS || quiet ? status : NIXL_IN_PROG;
}

nixl_status_t
nixlDrain(const nixlAgent &agent, std::chrono::milliseconds timeout) {
    nixlAgentData &data = nixlAgentAccess::data(agent);
    bool quiet = false;
    const nixl_status_t status = nixl::call(data, "nixlDrain", [&] {
        quiet = data.drain(timeout);
        return nixl::Status();
    });
    return status != NIXL_SUCCESS || quiet ? status : NIXL_IN_PROG;
}

nixl_status_t
nixlIsQuiet(const nixlAgent &agent, const nixlXferReqH *request, bool &quiet) {
    return onRequest(agent, "nixlIsQuiet", request,
                     [&](nixlAgentData &, const nixlXferReqH &found) { quiet = found.isQuiet(); });
}

nixl_status_t
nixlPeerEvents(const nixlAgent &agent, std::vector<nixlPeerEvent> &events) {
    nixlAgentData &data = nixlAgentAccess::data(agent);
    return nixl::call(data, "nixlPeerEvents", [&] {
        data.takePeerEvents(events);
        return nixl::Status();
    });
}

nixl_status_t
nixlFailedNotifs(nixlAgent &agent, std::vector<nixlFailedNotif> &failed) {
    nixlAgentData &data = nixlAgentAccess::data(agent);
    return nixl::call(data, "nixlFailedNotifs", [&] { return data.takeFailures(failed); });
}

std::string
nixlPathExplanation::toString() const {
    std::string text = nixl::concat(backend, ", ", path, ": ", blocks, blocks == 1 ? " block, " : " blocks, ",
                                    bytes, " bytes; ", reason);
    for (const nixlPathOption &option : options)
        text += nixl::concat("\n  ", option.chosen ? "* " : "- ", option.backend,
                             option.path.empty() ? "" : ", ", option.path, ": ", option.reason);
    return text;
}
