// What an agent knows about its peers.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "agent/engine_slot.h"
#include "agent/host_contact.h"
#include "agent/peer_events.h"
#include "agent/region_entry.h"
#include "memory/covering_index.h"
#include "util/mutex.h"
#include "util/status.h"
#include "wire/metadata_blob.h"

namespace nixl {

using RemoteEntryPtr = std::shared_ptr<RemoteEntry>;

/// How one engine reaches a peer.
struct PeerLink {
    EnginePtr engine;
    std::string info; ///< connection info, as loaded
    std::shared_ptr<Peer> peer;
    std::shared_ptr<HostContact> contact; ///< of the engine that joins; null for others
};

/// A peer from the first load of its metadata until it is invalidated, dropped or replaced by a new
/// incarnation; after that this object stays "not live" for whoever still holds it, and a later load makes
/// another one.
struct PeerState {
    explicit PeerState(std::string name_) : name(std::move(name_)), life(std::make_shared<PeerLife>(name)) {}

    const std::string name;
    const PeerLifePtr life; ///< lost before this object is "not live", if an engine has told so
    std::atomic<bool> live{true};

    /// Whether something new can be begun with it. NIXL_ERR_NOT_FOUND: it is not live; `what` was made with
    /// it. NIXL_ERR_REMOTE_DISCONNECT: an engine has told that it is gone, and it waits to be dropped.
    Status check(std::string_view what) const;

    /// What ends a run with it. NIXL_ERR_REMOTE_DISCONNECT: it is lost; NIXL_ERR_NOT_FOUND: the program
    /// removed it.
    Status checkRun() const;

    /// NIXL_ERR_REMOTE_DISCONNECT. REQUIRES: it is lost.
    Status gone() const;

private:
    friend class Peers;

    struct Section {
        EnginePtr engine;
        nixl_mem_t memory;
        CoveringIndex<RemoteEntryPtr> index;
    };

    Section &section(const EnginePtr &engine, nixl_mem_t memory);
    const Section *find(const EngineSlot *engine, nixl_mem_t memory) const;

    // Guarded by the lock of Peers.
    std::vector<PeerLink> links_;
    std::vector<std::unique_ptr<Section>> sections_; // in order of arrival
    std::optional<Incarnation> incarnation_;
    std::uint64_t epoch_ = 0;     // of the newest blob
    std::uint64_t fullEpoch_ = 0; // of the newest full blob
};

using PeerPtr = std::shared_ptr<PeerState>;

/// The peers of an agent by name. Thread-safe.
class Peers {
public:
    Peers(std::string ownName, std::shared_ptr<PeerEvents> events)
        : ownName_(std::move(ownName)), events_(std::move(events)) {}

    /// Takes in a metadata blob; all or nothing. Returns the peer's name.
    /// Loading connects to nobody. Regions whose registration changed, or that a newer full blob lacks, go
    /// stale; connections stay. A blob older than the newest full one is ignored; one between only adds. If a
    /// blob of another life of the peer is refused, the life that was known is forgotten too: engines that
    /// know peers by name have ended it already.
    /// `missing` are engines that this agent would have, too; messages name them.
    Result<std::string> load(const nixl_blob_t &bytes, const EngineList &engines,
                             const std::vector<MissingEngine> &missing);

    /// Forgets a peer. NIXL_ERR_NOT_FOUND if it is unknown.
    Status invalidate(const std::string &name);

    /// Forgets `peer`, which is lost, unless it was replaced already.
    void drop(const PeerPtr &peer, const std::string &why);

    /// Forgets all of which engines have told that they are lost.
    void dropLost();

    /// Forgets everybody.
    void clear();

    /// nullptr if unknown. It may be lost.
    PeerPtr find(const std::string &name) const;

    /// Engines by which the peer can be reached, in the order of its blob.
    std::vector<PeerLink> links(const PeerState &peer) const;

    /// The link of one engine, or nothing.
    std::optional<PeerLink> link(const PeerState &peer, const EngineSlot *engine) const;

    /// Engines with memory of this kind of the peer.
    EngineList enginesWith(const PeerState &peer, nixl_mem_t memory) const;

    /// Calls `visit(index)` with the peer's regions while they cannot change; an empty index if there are
    /// none.
    template<typename Visitor>
    auto
    withSection(const PeerState &peer, const EngineSlot *engine, nixl_mem_t memory, Visitor visit) const {
        static const CoveringIndex<RemoteEntryPtr> kEmpty;
        ReadLock lock(mutex_);
        const PeerState::Section *section = peer.find(engine, memory);
        return visit(section ? section->index : kEmpty);
    }

private:
    struct Update;

    /// What a change ends. It is destroyed without any lock: connections may take their time to close.
    struct Garbage {
        std::vector<RemoteEntryPtr> regions;
        std::vector<PeerPtr> peers;
    };

    Status prepareLinks(const MetadataBlob &blob, const EngineList &engines,
                        const std::vector<MissingEngine> &missing, Update &update) const;
    Status prepareRegions(MetadataBlob &blob, const EngineList &engines, Update &update) const;
    void commit(const MetadataBlob &blob, Update &update, Garbage &garbage);
    void retire(const PeerPtr &peer, Garbage &garbage) NIXL_REQUIRES(mutex_);
    void retireLost(const PeerPtr &peer, const std::string &why, Garbage &garbage) NIXL_REQUIRES(mutex_);

    const std::string ownName_;
    const std::shared_ptr<PeerEvents> events_;
    Mutex loading_; ///< held for a whole load or removal, so that what was checked still holds when it is
                    ///< committed
    mutable SharedMutex mutex_;
    std::unordered_map<std::string, PeerPtr> peers_ NIXL_GUARDED_BY(mutex_);
};

} // namespace nixl
