// The agent under test and its peer.
#pragma once

#include <memory>
#include <stdexcept>

#include "conformance/peer_side.h"
#include "conformance/suite_support.h"

namespace nixl::conformance {

/// Two agents, "initiator" (the one under test) and "target", who know each other.
struct Pair {
    explicit Pair(const PairTraits &traits, bool progressThread = true)
        : side(traits.engine, "initiator", progressThread), peer(makePeer(traits, "target")) {
        peer->meet("initiator", side.engine().connectionInfo().value());
        loadAgain();
    }

    /// Forgets the target and loads it as it is now. REQUIRES: nothing uses the former load, or the target is
    /// new.
    void
    loadAgain() {
        known.reset();
        Result<std::shared_ptr<Peer>> loaded = side.engine().loadPeer("target", peer->connectionInfo());
        if (!loaded.ok())
            throw std::runtime_error("loadPeer: " + loaded.status().message());
        known = std::move(loaded).value();
    }

    Side side;
    std::unique_ptr<PeerSide> peer;
    std::shared_ptr<Peer> known; ///< the target, as the initiator's engine knows it
};

/// A registration of the target, loaded by the initiator.
class Reached {
public:
    Reached(Pair &pair, const PeerMemory &memory) : peer_(pair.known), memory_(memory) {
        // As the core does: the path is asked for before a request is made.
        const Result<Path> path = pair.side.engine().path(NIXL_WRITE, memory.kind, memory.kind, peer_.get());
        if (!path.ok())
            throw std::runtime_error("path: " + path.status().message());
        Result<std::unique_ptr<RemoteRegion>> region =
            pair.side.engine().loadRegion(*peer_, memory.desc, memory.kind, memory.desc.metaInfo);
        if (!region.ok())
            throw std::runtime_error("loadRegion: " + region.status().message());
        region_ = std::move(region).value();
    }

    Target
    target() const {
        return {region_.get(), memory_.desc, memory_.kind, "target", peer_.get()};
    }

private:
    const std::shared_ptr<Peer> peer_;
    const PeerMemory memory_;
    std::unique_ptr<RemoteRegion> region_;
};

} // namespace nixl::conformance
