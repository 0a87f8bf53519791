// Both sides' forms of a registration.
#pragma once

#include "engine/engine.h"
#include "engines/local/region_table.h"
#include "nixl_descriptors.h"

namespace nixl::local {

struct OwnRegion : LocalRegion {
    OwnRegion(RegionKey name, std::uint64_t lentMemory) : key(name), lent(lentMemory) {}

    const RegionKey key;      ///< in the table of this engine
    const std::uint64_t lent; ///< memory that it lies in and that peers can map; 0: none
};

struct PeerRegion : RemoteRegion {
    explicit PeerRegion(RegionKey name) : key(name) {}

    const RegionKey key; ///< in the table of the engine that the transfer goes to
};

} // namespace nixl::local
