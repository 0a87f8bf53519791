// Registrations and peers as a south-bound engine knows them.
//
// Everything here that changes is guarded by SouthBoundEngine::mutex(), which also serialises the calls into
// the plugin. Objects lock it in their destructors, so none is destroyed while it is held.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>

#include "backend/backend_engine.h"
#include "engine/engine.h"

namespace nixl::south_bound {

class SouthBoundEngine;
class SouthBoundRequest;
struct RemoteSide;

/// A registration of this agent.
struct LocalSide : LocalRegion {
    LocalSide(SouthBoundEngine &owner, nixlBackendMD *metadata, nixl_mem_t kind)
        : engine(owner), md(metadata), memory(kind) {}

    /// Deregisters if that was not done.
    ~LocalSide() override;

    SouthBoundEngine &engine;
    nixlBackendMD *const md;
    const nixl_mem_t memory;
    bool registered = true;
    bool closed = false; ///< being deregistered: nothing new may use it
    std::unordered_set<RemoteSide *> loopbacks;
    std::unordered_set<SouthBoundRequest *> users;
};

/// What a plugin knows about a peer by its name; shared by the Peer and its regions, so that these are
/// unloaded before the plugin disconnects.
struct PeerState {
    PeerState(SouthBoundEngine &owner, std::string agent) : engine(owner), name(std::move(agent)) {}

    /// Disconnects if that was not done.
    ~PeerState();

    SouthBoundEngine &engine;
    const std::string name;
    bool loaded = false; ///< the plugin knows it; false again once another life of the name replaced it
    bool connected = false;
    std::unordered_set<RemoteSide *> regions;
};

struct SouthBoundPeer : Peer {
    explicit SouthBoundPeer(std::shared_ptr<PeerState> peer) : state(std::move(peer)) {}

    const std::shared_ptr<PeerState> state;
};

/// A region as the target of transfers: of a peer, or of this agent (loop-back).
struct RemoteSide : RemoteRegion {
    RemoteSide(SouthBoundEngine &owner, nixlBackendMD *metadata, nixl_mem_t kind)
        : engine(owner), md(metadata), memory(kind) {}

    /// Unloads if that was not done.
    ~RemoteSide() override;

    SouthBoundEngine &engine;
    nixlBackendMD *const md;
    const nixl_mem_t memory;
    std::shared_ptr<PeerState> peer; ///< null: loop-back
    LocalSide *own = nullptr;        ///< the registration it was made from, while that exists; null: a peer's
    bool loaded = true;
    std::unordered_set<SouthBoundRequest *> users;
};

} // namespace nixl::south_bound
