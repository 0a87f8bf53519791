// Where statuses leave the library: the code goes to the caller, the text to the log and to
// nixl_last_error().
#pragma once

#include <exception>
#include <string>

#include "agent/agent_state.h"
#include "util/status.h"

namespace nixl {

/// Keeps `message` as this thread's last error.
void setLastError(std::string message);

/// This thread's last error, "" if there was none.
const std::string &lastError();

/// Hands a failure to the caller: text, log line, counter; returns the code.
nixl_status_t report(nixlAgentData &data, const char *function, const Status &status);

/// Hands a request's state to the caller. What it was told before, and states that are no failures, only
/// leave their text.
nixl_status_t reportState(nixlAgentData &data, const char *function, const RequestState &state);

/// What a call answers about a handle that names no request.
Status notALiveRequest();

/// Runs `body`, which returns a Status, and reports it; refuses in a forked child. Exceptions (memory that is
/// not there) become NIXL_ERR_UNKNOWN.
template<typename Body>
nixl_status_t
call(nixlAgentData &data, const char *function, Body body) {
    if (data.fork.inherited())
        return report(data, function,
                      Status::error(NIXL_ERR_NOT_ALLOWED, "the agent '", data.name,
                                    "' was made before this process was forked; make one here"));
    try {
        return report(data, function, body());
    } catch (const std::exception &error) {
        return report(data, function, Status(NIXL_ERR_UNKNOWN, error.what()));
    }
}

} // namespace nixl
