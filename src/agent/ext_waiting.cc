// Waiting, as nixl_ext.h offers it.
#include <algorithm>

#include "agent/activity.h"
#include "agent/agent_access.h"
#include "agent/edge.h"
#include "nixl_ext.h"

using nixl::call;
using nixl::reportState;
using nixl::RequestState;
using nixl::Status;

namespace {

/// nullopt for times that the clock cannot tell.
nixlAgentData::Deadline
deadlineAfter(std::chrono::microseconds timeout) {
    constexpr std::chrono::hours kLongest{24 * 365 * 100};
    if (timeout > kLongest)
        return std::nullopt;
    return nixl::Activity::Clock::now() + std::max(timeout, std::chrono::microseconds(0));
}

} // namespace

nixl_status_t
nixlWait(const nixlAgent &agent, nixlXferReqH *request, std::chrono::microseconds timeout) {
    nixlAgentData &data = nixlAgentAccess::data(agent);
    RequestState state;
    const nixl_status_t status = call(data, "nixlWait", [&]() -> Status {
        const auto deadline = deadlineAfter(timeout);
        // Again if another thread posted it anew before its state was read.
        while (state.code == NIXL_IN_PROG && data.waitAny({&request, 1}, deadline)) {
            const auto found = data.requests.find(request);
            if (!found)
                return nixl::notALiveRequest();
            state = data.status(*found);
        }
        return {};
    });
    return status != NIXL_SUCCESS ? status : reportState(data, "nixlWait", state);
}

nixl_status_t
nixlWaitQuiet(const nixlAgent &agent, nixlXferReqH *request, std::chrono::microseconds timeout) {
    nixlAgentData &data = nixlAgentAccess::data(agent);
    bool quiet = false;
    const nixl_status_t status = call(data, "nixlWaitQuiet", [&]() -> Status {
        if (!data.requests.find(request))
            return nixl::notALiveRequest();
        quiet = data.waitAny({&request, 1}, deadlineAfter(timeout)).has_value();
        return {};
    });
    return status != NIXL_SUCCESS || quiet ? status : NIXL_IN_PROG;
}

nixl_status_t
nixlWaitAny(const nixlAgent &agent, std::span<nixlXferReqH *const> requests, std::size_t &which,
            std::chrono::microseconds timeout) {
    nixlAgentData &data = nixlAgentAccess::data(agent);
    bool any = false;
    const nixl_status_t status = call(data, "nixlWaitAny", [&]() -> Status {
        if (requests.empty())
            return Status(NIXL_ERR_INVALID_PARAM, "there are no requests to wait for");
        const auto found = data.waitAny(requests, deadlineAfter(timeout));
        any = found.has_value();
        which = found.value_or(which);
        return {};
    });
    return status != NIXL_SUCCESS || any ? status : NIXL_IN_PROG;
}

nixl_status_t
nixlWaitAll(const nixlAgent &agent, std::span<nixlXferReqH *const> requests,
            std::chrono::microseconds timeout) {
    nixlAgentData &data = nixlAgentAccess::data(agent);
    RequestState state{NIXL_SUCCESS, {}};
    const nixl_status_t status = call(data, "nixlWaitAll", [&]() -> Status {
        if (!data.waitAll(requests, deadlineAfter(timeout))) {
            state.code = NIXL_IN_PROG;
            return {};
        }
        for (const nixlXferReqH *request : requests) {
            const auto found = data.requests.find(request);
            if (!found)
                return nixl::notALiveRequest();
            state = data.status(*found);
            if (state.code != NIXL_SUCCESS)
                break; // those behind it stay news
        }
        return {};
    });
    return status != NIXL_SUCCESS ? status : reportState(data, "nixlWaitAll", state);
}

nixl_status_t
nixlWaitNotifs(nixlAgent &agent, nixl_notifs_t &notif_map, std::chrono::microseconds timeout,
               const nixl_opt_args_t *extra_params) {
    nixlAgentData &data = nixlAgentAccess::data(agent);
    bool any = false;
    const nixl_status_t status = call(data, "nixlWaitNotifs", [&] {
        nixl_notifs_t arrived;
        const Status waited = data.waitNotifications(arrived, extra_params, deadlineAfter(timeout));
        any = !arrived.empty();
        for (auto &[name, messages] : arrived) {
            auto &known = notif_map[name];
            known.insert(known.end(), std::make_move_iterator(messages.begin()),
                         std::make_move_iterator(messages.end()));
        }
        return waited;
    });
    return status != NIXL_SUCCESS || any ? status : NIXL_IN_PROG;
}

int
nixlWatch::fd() const {
    return watch_ ? watch_->fd() : -1;
}

void
nixlWatch::clear() {
    if (watch_)
        watch_->clear();
}

nixl_status_t
nixlWatchActivity(const nixlAgent &agent, nixlWatch &watch) {
    nixlAgentData &data = nixlAgentAccess::data(agent);
    return call(data, "nixlWatchActivity", [&]() -> Status {
        auto made = nixl::ActivityWatch::create(data.activity);
        if (!made.ok())
            return made.status();
        if (!data.backends.watch())
            return Status(NIXL_ERR_NOT_SUPPORTED,
                          "a backend of this agent cannot tell of events; wait for requests and "
                          "notifications by their calls");
        watch.watch_ = std::move(made).value();
        return {};
    });
}
