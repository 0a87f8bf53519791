// A peer, as an engine knows it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engines/ucx/connection.h"
#include "engines/ucx/kept_connections.h"
#include "engines/ucx/regions.h"
#include "util/fork_guard.h"

namespace nixl::ucx {

/// How a peer is reached.
struct PeerSettings {
    std::vector<std::string> addresses; ///< a checked and padded worker address for each worker
    unsigned packer = 0;                ///< minor version of the UCX that packed them, 0 if they do not tell
    bool packs = false;                 ///< whether it takes packed blocks
    bool errorHandling = true;          ///< whether its end is noticed
    bool closeForce = false;
};

/// One connection per worker of the engine, opened when it is used.
class UcxPeer : public Peer {
public:
    using Changed = std::function<void(const Peer *peer, PeerChange change, const std::string &why)>;

    /// `kept` outlives it. `changed` may be empty; it is called with the lock of a worker held.
    UcxPeer(const std::vector<std::unique_ptr<ProgressWorker>> &workers, KeptConnections &kept,
            const std::string &name, PeerSettings how, const Changed &changed);

    /// Gives its connections up: to be kept if the peer may send packed blocks, else closed, after what is
    /// under way on them unless it is to be by force. REQUIRES: no transfer.
    ~UcxPeer() override;

    Connection &
    connection(unsigned worker) {
        return *connections_[worker];
    }

    const std::shared_ptr<Connection> &
    sharedConnection(unsigned worker) const {
        return connections_[worker];
    }

    const std::string &
    name() const {
        return name_;
    }

    unsigned
    packer() const {
        return packer_;
    }

    RemoteKeys &
    keys() {
        return keys_;
    }

    /// Whether it takes packed blocks: an engine of ours.
    bool
    packs() const {
        return packs_;
    }

private:
    const ForkGuard guard_;
    KeptConnections &kept_;
    RemoteKeys keys_;
    const std::string name_;
    const unsigned packer_;
    const bool packs_;
    const bool keep_; ///< its connections
    const bool closeForce_;
    std::vector<std::shared_ptr<Connection>> connections_; // by index of the worker
};

} // namespace nixl::ucx
