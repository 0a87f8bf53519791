#include "agent/edge.h"

#include "util/log.h"

namespace nixl {

namespace {

thread_local std::string last_error;

} // namespace

void
setLastError(std::string message) {
    last_error = std::move(message);
}

const std::string &
lastError() {
    return last_error;
}

nixl_status_t
report(nixlAgentData &data, const char *function, const Status &status) {
    if (status.ok())
        return NIXL_SUCCESS;
    setLastError(status.message());
    NIXL_LOG(kError, function, ": ", nixlEnumStrings::statusStr(status.code()), ": ", status.message());
    if (data.telemetry && !data.fork.inherited())
        data.telemetry->recordError(status.code());
    return status.code();
}

nixl_status_t
reportState(nixlAgentData &data, const char *function, const RequestState &state) {
    if (state.news && state.code < 0 && state.code != NIXL_ERR_NOT_POSTED)
        return report(data, function, Status(state.code, state.message));
    if (state.code != NIXL_SUCCESS && !state.message.empty())
        setLastError(state.message);
    return state.code;
}

Status
notALiveRequest() {
    return Status::error(NIXL_ERR_INVALID_PARAM, "not a transfer request of this agent (null, or released)");
}

} // namespace nixl
