// An engine of an agent, with what the agent knows about it.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace nixl {

/// Registrations, peers and lists are kept per engine. Constant after construction; lives as long as anything
/// uses the engine.
class EngineSlot {
public:
    EngineSlot(const EngineInfo &info, std::unique_ptr<Engine> engine)
        : info_(info), engine_(std::move(engine)), capabilities_(engine_->capabilities()) {
        for (const HostLane lane : {HostLane::kSameProcess, HostLane::kHostMemory, HostLane::kDeviceMemory})
            limits_[static_cast<std::size_t>(lane)] = engine_->hostLaneLimit(lane);
    }

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

    /// Why its settings rule out a lane inside the host; nullptr if they do not.
    const std::string *
    hostLaneLimit(HostLane lane) const {
        const auto &limit = limits_[static_cast<std::size_t>(lane)];
        return limit ? &*limit : nullptr;
    }

private:
    const EngineInfo info_;
    const std::unique_ptr<Engine> engine_;
    const Capabilities capabilities_;
    std::array<std::optional<std::string>, 3> limits_; // by HostLane
};

using EnginePtr = std::shared_ptr<EngineSlot>;

/// Engines in order of preference.
using EngineList = std::vector<EnginePtr>;

} // namespace nixl
