// Lists of blocks, resolved once to the registrations that hold them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "agent/local_memory.h"
#include "agent/peers.h"
#include "memory/block_list.h"
#include "nixl_descriptors.h"
#include "util/status.h"

namespace nixl {

/// Which end of a transfer a list describes.
enum class Side {
    kLocal,    ///< this agent's memory, as the local end
    kLoopback, ///< this agent's memory, as the remote end
    kRemote,   ///< a peer's memory
};

/// A list as one engine sees it: every block lies in the one of `regions` that it names. Engines in which the
/// same memory is registered share the blocks.
struct ResolvedList {
    EnginePtr engine;
    std::shared_ptr<const BlockList> blocks;
    std::vector<std::shared_ptr<RegionEntry>> regions;
};

/// What a program wants to be resolved: plain blocks or strided rows.
struct BlockInput {
    nixl_mem_t memory;
    std::span<const nixlBasicDesc> blocks;
    std::span<const nixlStrideDesc> rows;

    explicit BlockInput(const nixl_xfer_dlist_t &list)
        : memory(list.getType()),
          blocks(list.isEmpty() ? nullptr : &list[0], static_cast<std::size_t>(list.descCount())) {}

    explicit BlockInput(const nixl_stride_dlist_t &list)
        : memory(list.getType()),
          rows(list.isEmpty() ? nullptr : &list[0], static_cast<std::size_t>(list.descCount())) {}

    bool
    empty() const {
        return blocks.empty() && rows.empty();
    }
};

/// Resolves against this agent's registrations in one engine. `known`, nullptr for none, is the same input as
/// another engine sees it: where a registration covers each of its regions, blocks are not looked up again.
/// NIXL_ERR_NOT_FOUND, naming the first block that lies in no registration.
Result<ResolvedList> resolve(const BlockInput &input, const LocalMemory &memory, const EnginePtr &engine,
                             const ResolvedList *known = nullptr);

/// Resolves against a peer's registrations in one engine.
Result<ResolvedList> resolve(const BlockInput &input, const Peers &peers, const PeerState &peer,
                             const EnginePtr &engine, const ResolvedList *known = nullptr);

} // namespace nixl

/// A prepared list; constant.
class nixlDlistH {
public:
    nixl::Side side;
    nixl_mem_t memory;
    nixl::PeerPtr peer; ///< for Side::kRemote
    /// The list in every engine that has all of its memory, in order of preference; at least one.
    std::vector<nixl::ResolvedList> lists;

    const nixl::ResolvedList *
    of(const nixl::EngineSlot *engine) const {
        for (const nixl::ResolvedList &list : lists) {
            if (list.engine.get() == engine)
                return &list;
        }
        return nullptr;
    }
};
