// What has happened to an agent's peers, for its program.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "nixl_ext.h"
#include "util/mutex.h"

namespace nixl {

/// One life of a peer: from the load of its metadata until it is lost or leaves. It begins with one event
/// and ends with one. Owns nothing of an engine, so that it can be let go of anywhere.
class PeerLife {
public:
    explicit PeerLife(std::string name) : name_(std::move(name)) {}

    const std::string &
    name() const {
        return name_;
    }

    /// Whether it ended because the peer is gone, rather than by the program.
    bool
    lost() const {
        return lost_.load(std::memory_order_acquire);
    }

    /// Why it is lost. REQUIRES: lost().
    const std::string &
    why() const {
        return why_;
    }

private:
    friend class PeerEvents;

    const std::string name_;
    std::string why_; // constant once lost_ is set
    std::atomic<bool> lost_{false};
    bool over_ = false;    // of PeerEvents, under its lock
    unsigned stalled_ = 0; // engines by which it is; likewise
};

using PeerLifePtr = std::shared_ptr<PeerLife>;

/// Collects the events until the program takes them. Shared by the agent and its engines, some of which may
/// outlive it. Thread-safe: a lock of its own, under which nobody is called.
class PeerEvents {
public:
    using Kind = nixlPeerEvent::Kind;

    /// Keeps the newest `limit` events, and fewer if their messages have more than `messageBytes`, at least
    /// one. `signal` is called with every event, after it can be taken, under the locks of whoever tells; may
    /// be empty.
    PeerEvents(std::size_t limit, std::uint64_t messageBytes, std::function<void()> signal)
        : limit_(limit), mostBytes_(messageBytes), signal_(std::move(signal)) {}

    /// Reports about `peer` mean `life` from now on, until forget().
    void watch(const Peer &peer, PeerLifePtr life);

    /// From now on reports about `peer` mean nothing; to be called before it is destroyed, after which the
    /// address may become another peer's.
    void forget(const Peer &peer);

    /// An engine's report (EngineConfig::onPeerChange). That a peer is lost marks its life, and whoever
    /// touches the peer next takes it down: here that cannot be done, since it closes connections.
    void report(const Peer *peer, PeerChange change, const std::string &why);

    void joined(const PeerLife &life);
    void updated(const PeerLife &life, std::string why);
    /// Ends a life. Nothing is told if it was over before.
    void lost(PeerLife &life, const std::string &why);
    void left(PeerLife &life, const std::string &why);

    /// An engine's report (EngineConfig::onUndelivered), also of a peer whose life is over.
    void undelivered(const std::string &peer, std::string message, const std::string &why);

    /// Appends the events since the last call, oldest first.
    void take(std::vector<nixlPeerEvent> &out);

private:
    struct Watch {
        PeerLifePtr life;
        bool stalled = false;
    };

    void tell(const PeerLife &life, Kind kind, std::string why);
    void add(const std::string &peer, Kind kind, std::string why, std::string message = {})
        NIXL_REQUIRES(mutex_);
    bool addChange(Watch &watch, PeerChange change, const std::string &why) NIXL_REQUIRES(mutex_);
    bool endAsLost(PeerLife &life, const std::string &why) NIXL_REQUIRES(mutex_);
    void signal() const;

    const std::size_t limit_;
    const std::uint64_t mostBytes_;
    const std::function<void()> signal_;
    Mutex mutex_;
    std::unordered_map<const Peer *, Watch> watches_ NIXL_GUARDED_BY(mutex_);
    std::deque<nixlPeerEvent> events_ NIXL_GUARDED_BY(mutex_);
    std::uint64_t bytes_ NIXL_GUARDED_BY(mutex_) = 0; ///< of their messages
    std::size_t dropped_ NIXL_GUARDED_BY(mutex_) = 0; ///< that were older than events_.front()
};

} // namespace nixl
