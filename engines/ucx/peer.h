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
#include "engines/ucx/liveness.h"
#include "engines/ucx/regions.h"
#include "util/fork_guard.h"
#include "util/mutex.h"

namespace nixl::ucx {

/// How a peer is reached.
struct PeerSettings {
    std::vector<std::string> addresses;   ///< a checked and padded worker address for each worker
    std::vector<SocketAddress> sockets{}; ///< at which it listens
    unsigned packer = 0;       ///< minor version of the UCX that packed them, 0 if they do not tell
    bool packs = false;        ///< whether it takes packed blocks
    bool errorHandling = true; ///< whether its end is noticed
    bool closeForce = false;
};

/// One connection per worker of the engine, opened when it is used.
class UcxPeer : public Peer {
public:
    using Changed = std::function<void(const Peer *peer, PeerChange change, const std::string &why)>;

    /// Who is told about it, with the lock of a worker held. Each may be empty.
    struct Listeners {
        Changed changed;
        Outbox::Undelivered undelivered;
    };

    /// `kept` and `liveness` outlive it. Without liveness, for an agent's own other end, nobody watches it.
    UcxPeer(const std::vector<std::unique_ptr<ProgressWorker>> &workers, KeptConnections &kept,
            Liveness *liveness, const std::string &name, PeerSettings how, Listeners listeners);

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

    bool
    errorHandling() const {
        return errorHandling_;
    }

    const std::vector<SocketAddress> &
    socketAddresses() const {
        return sockets_;
    }

    void tell(PeerChange change, const std::string &why) const;

    /// Why it is lost, if one of its connections has found out so; else success.
    Status lost() const;

    /// It is lost: what is under way with it ends with NIXL_ERR_REMOTE_DISCONNECT. REQUIRES: no lock of a
    /// worker.
    void giveUp(const Status &why);

private:
    void setLost(const Status &why);

    const ForkGuard guard_;
    KeptConnections &kept_;
    Liveness *const liveness_;
    const Listeners listeners_;
    const std::vector<SocketAddress> sockets_;
    const bool errorHandling_;
    RemoteKeys keys_;
    const std::string name_;
    const unsigned packer_;
    const bool packs_;
    const bool keep_; ///< its connections
    const bool closeForce_;
    mutable Mutex mutex_; ///< after the lock of a worker
    Status lost_ NIXL_GUARDED_BY(mutex_);
    std::vector<std::shared_ptr<Connection>> connections_; // by index of the worker
};

} // namespace nixl::ucx
