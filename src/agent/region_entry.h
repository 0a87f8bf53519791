// Registrations as the agent keeps them: its own, and those of its peers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "agent/engine_slot.h"
#include "memory/covering_index.h"

namespace nixl {

/// A registration in one engine. Lists and requests share it; whether it still holds is asked at every post.
struct RegionEntry {
    RegionEntry(const nixlBasicDesc &desc_, nixl_mem_t memory_, EnginePtr engine_)
        : desc(desc_), memory(memory_), engine(std::move(engine_)) {}

    virtual ~RegionEntry() = default;

    const nixlBasicDesc desc;
    const nixl_mem_t memory;
    const EnginePtr engine;
    std::uint64_t age = 0; ///< in its CoveringIndex; constant once it is there

    /// False once it was deregistered, dropped or replaced; never true again.
    std::atomic<bool> live{true};
    /// Posted requests that use it and are not known to have ended.
    std::atomic<int> running{0};
};

/// Memory of this agent.
struct LocalEntry : RegionEntry {
    using RegionEntry::RegionEntry;

    std::string publicData; ///< for peers; empty if the engine reaches none
    std::uint64_t key = 0;  ///< random; tells this registration from others of the same range
    bool ending = false;    ///< a call is ending it now; guarded by the lock of LocalMemory
    bool ended = false;     ///< the engine has ended it; guarded as `ending`
    std::unique_ptr<LocalRegion> region;
    std::unique_ptr<RemoteRegion>
        loopback; ///< destroyed before `region`; null if the engine has no loop-back
};

/// Memory of a peer.
struct RemoteEntry : RegionEntry {
    using RegionEntry::RegionEntry;

    std::string publicData;
    std::uint64_t key = 0; ///< 0 if the peer is a plain NIXL agent
    std::shared_ptr<Peer> peer;
    std::unique_ptr<RemoteRegion> region; ///< destroyed before `peer` is released
};

/// Text for messages: "DRAM_SEG 0x1000 + 64 (device 0)".
std::string describe(nixl_mem_t memory, const nixlBasicDesc &desc);

} // namespace nixl
