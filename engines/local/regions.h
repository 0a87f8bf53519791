// Both sides' forms of a registration.
#pragma once

#include "engine/engine.h"
#include "engines/local/region_table.h"
#include "nixl_descriptors.h"

namespace nixl::local {

struct OwnRegion : LocalRegion {
    explicit OwnRegion(RegionKey name) : key(name) {}

    const RegionKey key; ///< in the table of this engine
};

struct PeerRegion : RemoteRegion {
    explicit PeerRegion(RegionKey name) : key(name) {}

    const RegionKey key; ///< in the table of the engine that the transfer goes to
};

} // namespace nixl::local
