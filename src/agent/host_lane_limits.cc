#include "agent/host_lane_limits.h"

#include <algorithm>

namespace nixl {

HostLane
laneBetweenProcesses(nixl_mem_t memory) {
    return memory == VRAM_SEG ? HostLane::kDeviceMemory : HostLane::kHostMemory;
}

HostLaneLimits::HostLaneLimits(const EngineFactory &factory, const EngineConfig &config) {
    for (const HostLane lane : {HostLane::kSameProcess, HostLane::kHostMemory, HostLane::kDeviceMemory})
        reasons_[static_cast<std::size_t>(lane)] = factory.hostLaneLimit(lane, config);
}

const std::string *
HostLaneLimits::of(HostLane lane) const {
    const auto &reason = reasons_[static_cast<std::size_t>(lane)];
    return reason ? &*reason : nullptr;
}

const std::string *
HostLaneLimits::ofAll(const nixl_mem_list_t &memories) const {
    const std::string *withinProcess = of(HostLane::kSameProcess);
    const bool none =
        withinProcess && std::all_of(memories.begin(), memories.end(),
                                     [this](nixl_mem_t memory) { return of(laneBetweenProcesses(memory)); });
    if (!none)
        return nullptr;
    return memories.empty() ? withinProcess : of(laneBetweenProcesses(memories.front()));
}

std::size_t
HostLaneLimits::count() const {
    return static_cast<std::size_t>(std::count_if(reasons_.begin(), reasons_.end(),
                                                  [](const auto &reason) { return reason.has_value(); }));
}

} // namespace nixl
