// An engine of an agent, with what the agent knows about it.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

/// What the public interface calls a backend handle. Constant after construction; lives as long as anything
/// uses the engine.
class nixlBackendH {
public:
    nixlBackendH(const std::string &type, const nixl_b_params_t &params, std::unique_ptr<nixl::Engine> engine)
        : type_(type), params_(params), engine_(std::move(engine)), capabilities_(engine_->capabilities()) {}

    const std::string &
    type() const {
        return type_;
    }

    const nixl_b_params_t &
    params() const {
        return params_;
    }

    nixl::Engine &
    engine() const {
        return *engine_;
    }

    const nixl::Capabilities &
    capabilities() const {
        return capabilities_;
    }

    bool
    takes(nixl_mem_t memory) const {
        const auto &memories = capabilities_.memories;
        return std::find(memories.begin(), memories.end(), memory) != memories.end();
    }

private:
    const std::string type_;
    const nixl_b_params_t params_;
    const std::unique_ptr<nixl::Engine> engine_;
    const nixl::Capabilities capabilities_;
};

namespace nixl {

using BackendPtr = std::shared_ptr<nixlBackendH>;

/// Engines in order of preference.
using BackendList = std::vector<BackendPtr>;

} // namespace nixl
