// Calls into foreign code: nothing it throws gets out, and what it answers becomes a value of ours.
#pragma once

#include <exception>
#include <string>

#include "engine/engine.h"
#include "util/concat.h"
#include "util/status.h"

namespace nixl::south_bound {

/// The answer of a function that may also answer NIXL_IN_PROG. `plugin` and `function` are for the text of an
/// error.
template<typename Call>
Progress
callForProgress(const std::string &plugin, const char *function, Call call) {
    try {
        const nixl_status_t code = call();
        if (code == NIXL_SUCCESS || code == NIXL_IN_PROG)
            return {code, {}, {}};
        if (code < 0 && code >= NIXL_ERR_NO_TELEMETRY)
            return {code,
                    concat("plugin ", plugin, ": ", function, " answered ", nixlEnumStrings::statusStr(code)),
                    {}};
        return {NIXL_ERR_BACKEND,
                concat("plugin ", plugin, ": ", function, " answered ", static_cast<int>(code),
                       ", which is no status"),
                {}};
    } catch (const std::exception &error) {
        return {NIXL_ERR_BACKEND, concat("plugin ", plugin, ": ", function, " threw: ", error.what()), {}};
    } catch (...) {
        return {NIXL_ERR_BACKEND, concat("plugin ", plugin, ": ", function, " threw something unknown"), {}};
    }
}

/// The same for functions that are done when they return.
template<typename Call>
Status
callPlugin(const std::string &plugin, const char *function, Call call) {
    Progress answer = callForProgress(plugin, function, call);
    if (answer.code == NIXL_SUCCESS)
        return {};
    if (answer.code == NIXL_IN_PROG)
        return Status::error(NIXL_ERR_BACKEND, "plugin ", plugin, ": ", function,
                             " answered NIXL_IN_PROG, which it must not");
    return Status(answer.code, std::move(answer.message));
}

} // namespace nixl::south_bound
