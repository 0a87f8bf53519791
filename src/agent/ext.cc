// The additions of nixl_ext.h.
#include "nixl_ext.h"

#include "agent/agent_state.h"
#include "agent/edge.h"
#include "util/concat.h"

#ifndef NIXL_VERSION
#error "the build defines NIXL_VERSION"
#endif

struct nixlAgentAccess {
    static nixlAgentData &
    data(const nixlAgent &agent) {
        return *agent.data_;
    }
};

const char *
nixl_version() {
    return NIXL_VERSION;
}

const char *
nixl_last_error() {
    return nixl::lastError().c_str();
}

nixl_status_t
nixlExplain(const nixlAgent &agent, const nixlXferReqH *request, nixlPathExplanation &explanation) {
    nixlAgentData &data = nixlAgentAccess::data(agent);
    return nixl::call(data, "nixlExplain", [&]() -> nixl::Status {
        const auto found = data.requests.find(request);
        if (!found)
            return nixl::Status(NIXL_ERR_INVALID_PARAM,
                                "not a transfer request of this agent (null, or released)");
        explanation = found->explanation();
        return {};
    });
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
