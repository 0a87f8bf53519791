// What the program's settings of a network backend rule out inside the host.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "engine/engine.h"

namespace nixl {

/// The lane by which another process reaches memory of a kind.
HostLane laneBetweenProcesses(nixl_mem_t memory);

/// The answers of EngineFactory::hostLaneLimit for one configuration. They hold for the engine that joins,
/// whether the network engine itself could start or not. Constant.
class HostLaneLimits {
public:
    /// Asks the factory.
    HostLaneLimits(const EngineFactory &factory, const EngineConfig &config);

    /// Why a lane is ruled out; nullptr if it is not.
    const std::string *of(HostLane lane) const;

    /// Why every lane of an engine that takes these kinds of memory is ruled out; nullptr if one is left.
    const std::string *ofAll(const nixl_mem_list_t &memories) const;

    /// Number of lanes that are ruled out.
    std::size_t count() const;

private:
    std::array<std::optional<std::string>, 3> reasons_; // by HostLane
};

} // namespace nixl
