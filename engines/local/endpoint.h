// What peers and running transfers of the same process may still hold when an engine has ended.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/anteroom.h"
#include "engine/engine.h"
#include "engine/inbox.h"
#include "engines/local/lent_memory.h"
#include "engines/local/region_table.h"
#include "util/mutex.h"
#include "wire/metadata_blob.h"

namespace nixl::local {

struct Endpoint {
    using PeerChanged = std::function<void(const Peer *peer, PeerChange change, const std::string &why)>;

    using Undelivered =
        std::function<void(const std::string &peerName, std::string message, const std::string &why)>;

    Endpoint(const Incarnation &id, std::string name, RegionTable regions, std::uint64_t inboxLimit,
             std::function<void()> onActivity, PeerChanged onPeerChange, Undelivered onUndelivered)
        : incarnation(id), agent(std::move(name)), table(std::move(regions)), inbox(inboxLimit),
          onActivity_(std::move(onActivity)), onPeerChange_(std::move(onPeerChange)),
          onUndelivered_(std::move(onUndelivered)) {}

    const Incarnation incarnation;
    const std::string agent;
    RegionTable table;
    LentMemory lent;
    Inbox inbox;
    Anteroom anteroom{inbox};

    /// The error for everything that is wanted of it once it has ended.
    Status ended() const;

    /// Tells the core that something happened, unless the engine has ended.
    void signalActivity();

    /// Tells the core about a peer, unless the engine has ended.
    void tellPeerChange(const Peer &peer, PeerChange change, const std::string &why);

    /// Tells the core about a message that does not arrive, unless the engine has ended.
    void tellUndelivered(const std::string &peerName, std::string message, const std::string &why);

    /// Calls `told` when this engine ends, at once if it has. `who` names the call for forget(), after which
    /// it is not called.
    void whenEnded(const void *who, std::function<void()> told);
    void forget(const void *who);

    /// After the return nothing more is told to the core; those who asked for it know.
    void end();

private:
    Mutex mutex_; ///< nothing but the core is called under it
    std::function<void()> onActivity_ NIXL_GUARDED_BY(mutex_);
    PeerChanged onPeerChange_ NIXL_GUARDED_BY(mutex_);
    Undelivered onUndelivered_ NIXL_GUARDED_BY(mutex_);
    Mutex watching_; ///< before the mutex_ of other endpoints
    std::map<const void *, std::function<void()>> watchers_ NIXL_GUARDED_BY(watching_);
    bool ended_ NIXL_GUARDED_BY(watching_) = false;
};

} // namespace nixl::local
