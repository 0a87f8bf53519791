// An engine of an agent, with what the agent knows about it.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace nixl {

/// Registrations, peers and lists are kept per engine. Constant after construction; lives as long as anything
/// uses the engine.
class EngineSlot {
public:
    EngineSlot(const EngineInfo &info, std::unique_ptr<Engine> engine)
        : info_(info), engine_(std::move(engine)), capabilities_(engine_->capabilities()) {}

    /// As it stands in metadata.
    const std::string &
    name() const {
        return info_.name;
    }

    const EngineInfo &
    info() const {
        return info_;
    }

    Engine &
    impl() const {
        return *engine_;
    }

    const Capabilities &
    capabilities() const {
        return capabilities_;
    }

    bool
    takes(nixl_mem_t memory) const {
        const auto &memories = capabilities_.memories;
        return std::find(memories.begin(), memories.end(), memory) != memories.end();
    }

    /// Why it does not take a kind of memory here that it would take elsewhere; nullptr if there is no such
    /// reason.
    const std::string *
    refusal(nixl_mem_t memory) const {
        for (const auto &[kind, reason] : capabilities_.refused) {
            if (kind == memory)
                return &reason;
        }
        return nullptr;
    }

private:
    const EngineInfo info_;
    const std::unique_ptr<Engine> engine_;
    const Capabilities capabilities_;
};

/// An engine that an agent would use if it could start here.
struct MissingEngine {
    std::string name;
    std::string backend; ///< the one that it would serve
    std::string reason;
};

using EnginePtr = std::shared_ptr<EngineSlot>;

/// Engines in order of preference.
using EngineList = std::vector<EnginePtr>;

} // namespace nixl
