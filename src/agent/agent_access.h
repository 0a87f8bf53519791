// How the functions of nixl_ext.h reach the state of an agent.
#pragma once

#include "agent/agent_state.h"

struct nixlAgentAccess {
    static nixlAgentData &
    data(const nixlAgent &agent) {
        return *agent.data_;
    }
};
