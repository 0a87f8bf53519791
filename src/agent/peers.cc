#include "agent/peers.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "util/concat.h"
#include "util/log.h"

namespace nixl {

namespace {

EnginePtr
findEngine(const EngineList &engines, const std::string &type) {
    for (const EnginePtr &engine : engines) {
        if (engine->name() == type)
            return engine;
    }
    return nullptr;
}

/// Whether the ranges are all different because they are in their order, as our agents write them.
bool
inOrder(const nixl_reg_dlist_t &descs) {
    const auto notBefore = [](const nixlBasicDesc &a, const nixlBasicDesc &b) { return !(a < b); };
    return std::adjacent_find(descs.begin(), descs.end(), notBefore) == descs.end();
}

} // namespace

PeerState::Section &
PeerState::section(const EnginePtr &engine, nixl_mem_t memory) {
    for (const auto &section : sections_) {
        if (section->engine == engine && section->memory == memory)
            return *section;
    }
    sections_.push_back(std::make_unique<Section>(Section{engine, memory, {}}));
    return *sections_.back();
}

const PeerState::Section *
PeerState::find(const EngineSlot *engine, nixl_mem_t memory) const {
    for (const auto &section : sections_) {
        if (section->engine.get() == engine && section->memory == memory)
            return section.get();
    }
    return nullptr;
}

Status
PeerState::check(std::string_view what) const {
    if (!live.load())
        return life->lost() ? Status::error(NIXL_ERR_NOT_FOUND, "stale: '", name, "' that ", what,
                                            " was made with is lost (", life->why(),
                                            "); load its metadata and make another one")
                            : Status::error(NIXL_ERR_NOT_FOUND, "stale: the metadata of '", name, "' that ",
                                            what, " was made with is gone");
    return life->lost() ? gone() : Status();
}

Status
PeerState::checkRun() const {
    if (life->lost())
        return gone();
    return live.load() ? Status()
                       : Status::error(NIXL_ERR_NOT_FOUND, "stale: the metadata of '", name,
                                       "' that it was made with is gone");
}

Status
PeerState::gone() const {
    return Status::error(NIXL_ERR_REMOTE_DISCONNECT, "'", name, "' is lost: ", life->why());
}

/// What a blob would change, made before anything is changed.
struct Peers::Update {
    PeerPtr known;                          ///< the peer as it is; null if it is new
    bool replaces = false;                  ///< the peer is lost, or the blob is of another life of it
    bool current = false;                   ///< the blob is of the same life and not older than what is known
    bool late = false;                      ///< of the same life, and older: it adds what is unknown
    std::vector<PeerLink> links;            ///< new ones
    std::vector<RemoteEntryPtr> regions;    ///< new ones
    std::vector<RemoteEntryPtr> superseded; ///< replaced by another registration of the same range
    std::unordered_set<const RemoteEntry *> confirmed; ///< known ones that the blob names again

    /// The state that the blob adds to, if any.
    const PeerState *
    base() const {
        return known && !replaces ? known.get() : nullptr;
    }

    const PeerLink *
    link(const EngineSlot *engine) const {
        const auto of = [&](const std::vector<PeerLink> &all) -> const PeerLink * {
            const auto found = std::find_if(all.begin(), all.end(),
                                            [&](const PeerLink &l) { return l.engine.get() == engine; });
            return found == all.end() ? nullptr : &*found;
        };
        const PeerLink *fresh = of(links);
        return fresh || !base() ? fresh : of(base()->links_);
    }
};

/// Connections: known ones must be the same, new ones are taken in by their engine.
Status
Peers::prepareLinks(const MetadataBlob &blob, const EngineList &engines,
                    const std::vector<MissingEngine> &missing, Update &update) const {
    bool usable = false;
    for (const ConnectionEntry &entry : blob.connections) {
        const EnginePtr engine = findEngine(engines, entry.backend);
        if (!engine || !engine->capabilities().remote)
            continue;
        if (const PeerLink *known = update.link(engine.get())) {
            if (known->info != entry.info)
                return Status::error(NIXL_ERR_NOT_ALLOWED, "the connection information of ", entry.backend,
                                     " changed; invalidate the peer first");
            usable = true;
            continue;
        }
        auto peer = engine->impl().loadPeer(blob.agent, entry.info);
        if (!peer.ok())
            return peer.status().withContext(concat("connection information of ", entry.backend));
        update.links.push_back({engine, entry.info, std::move(peer).value(),
                                engine->info().joins ? std::make_shared<HostContact>() : nullptr});
        usable = true;
    }
    if (!usable && !blob.connections.empty()) {
        std::string theirs, ours, absent;
        for (const ConnectionEntry &entry : blob.connections) {
            theirs += " " + entry.backend;
            for (const MissingEngine &engine : missing) {
                if (engine.name == entry.backend)
                    absent += concat("; ", engine.name, " could not start here: ", engine.reason);
            }
        }
        for (const EnginePtr &engine : engines)
            ours += " " + engine->name();
        return Status::error(NIXL_ERR_BACKEND, "no engine in common: the peer has", theirs,
                             ", this agent has", ours.empty() ? " none" : ours, absent);
    }
    return {};
}

/// Regions: a known range keeps its registration if it is the same one. Another registration of the range
/// replaces it if the blob is not older; plain NIXL blobs have no age, so there it is an error. What is new
/// takes its data out of the blob.
Status
Peers::prepareRegions(MetadataBlob &blob, const EngineList &engines, Update &update) const {
    const bool keyed = blob.extension && !blob.extension->keys.empty();
    std::size_t number = 0; // of the descriptor among all descriptors of the blob
    std::size_t most = update.regions.size();
    for (const MetadataSection &section : blob.sections)
        most += static_cast<std::size_t>(section.descs.descCount());
    update.regions.reserve(most);
    for (MetadataSection &section : blob.sections) {
        const EnginePtr engine = findEngine(engines, section.backend);
        const nixl_mem_t memory = section.descs.getType();
        if (!engine || !engine->takes(memory)) {
            number += static_cast<std::size_t>(section.descs.descCount());
            continue;
        }
        const PeerLink *link = update.link(engine.get());
        if (!link)
            return Status::error(NIXL_ERR_NOT_FOUND, "the blob has memory of ", section.backend,
                                 " but no connection for it is known");
        const PeerState::Section *known = update.base() ? update.base()->find(engine.get(), memory) : nullptr;
        const bool distinct = inOrder(section.descs);
        std::map<nixlBasicDesc, const std::string *> seen;
        for (nixlBlobDesc &desc : section.descs) {
            const std::uint64_t key = keyed ? blob.extension->keys[number] : 0;
            ++number;
            if (!distinct) {
                const auto [earlier, fresh] = seen.emplace(desc, &desc.metaInfo);
                if (!fresh && *earlier->second != desc.metaInfo)
                    return Status::error(NIXL_ERR_NOT_ALLOWED, describe(memory, desc),
                                         " is in the blob twice, with different data");
                if (!fresh)
                    continue;
            }
            if (known) {
                if (const RemoteEntryPtr *oldest = known->index.oldest(desc)) {
                    const RemoteEntryPtr &entry = *oldest;
                    const bool same = entry->publicData == desc.metaInfo && (!keyed || entry->key == key);
                    if (same) {
                        update.confirmed.insert(entry.get());
                        continue;
                    }
                    if (update.late)
                        continue;
                    if (!update.current)
                        return Status::error(NIXL_ERR_NOT_ALLOWED, describe(memory, desc),
                                             " is known with other data; invalidate the peer first");
                    update.superseded.push_back(entry);
                }
            }
            auto region = engine->impl().loadRegion(*link->peer, desc, memory, desc.metaInfo);
            if (!region.ok())
                return region.status().withContext(concat(section.backend, ", ", describe(memory, desc)));
            auto entry = std::make_shared<RemoteEntry>(desc, memory, engine);
            if (distinct)
                entry->publicData = std::move(desc.metaInfo);
            else
                entry->publicData = desc.metaInfo; // `seen` still looks at it
            entry->key = key;
            entry->peer = link->peer;
            entry->region = std::move(region).value();
            update.regions.push_back(std::move(entry));
        }
    }
    return {};
}

Result<std::string>
Peers::load(const nixl_blob_t &bytes, const EngineList &engines, const std::vector<MissingEngine> &missing) {
    auto decoded = decodeMetadata(bytes);
    if (!decoded.ok())
        return decoded.status();
    MetadataBlob blob = std::move(decoded).value();
    if (blob.agent == ownName_)
        return Status::error(NIXL_ERR_INVALID_PARAM, "the metadata is of this agent itself, '", blob.agent,
                             "'");
    Garbage garbage;
    LockGuard loading(loading_);
    Update update;
    update.known = find(blob.agent);
    update.replaces = update.known && update.known->life->lost();
    if (update.known && blob.extension && !update.replaces) {
        const auto &incarnation = update.known->incarnation_;
        update.replaces = incarnation && *incarnation != blob.extension->incarnation;
        const bool sameLife = incarnation && !update.replaces;
        update.current = sameLife && blob.extension->epoch >= update.known->epoch_;
        update.late = sameLife && !update.current;
        if (update.late && blob.extension->epoch < update.known->fullEpoch_) {
            NIXL_LOG(kDebug, "metadata of '", blob.agent, "' is older than what is known; ignored");
            return blob.agent;
        }
    }
    Status status = prepareLinks(blob, engines, missing, update);
    if (status.ok())
        status = prepareRegions(blob, engines, update);
    if (!status.ok()) {
        if (update.replaces && !update.links.empty()) {
            WriteLock lock(mutex_);
            peers_.erase(blob.agent);
            retireLost(update.known, "another life of it is there, whose metadata is refused", garbage);
        }
        return status.withContext(concat("metadata of '", blob.agent, "'"));
    }
    commit(blob, update, garbage);
    return blob.agent;
}

void
Peers::commit(const MetadataBlob &blob, Update &update, Garbage &garbage) {
    WriteLock lock(mutex_);
    PeerPtr peer = update.known;
    if (update.replaces) {
        retireLost(peer, "replaced by another life of it", garbage);
        peer = nullptr;
    }
    const bool joins = !peer;
    if (joins) {
        peer = std::make_shared<PeerState>(blob.agent);
        peers_[blob.agent] = peer;
        events_->joined(*peer->life);
    }
    std::size_t gone = update.superseded.size();
    const std::size_t ways = update.links.size();
    for (PeerLink &link : update.links) {
        events_->watch(*link.peer, peer->life);
        peer->links_.push_back(std::move(link));
    }
    const auto drop = [&](PeerState::Section &section, const RemoteEntryPtr &entry) {
        entry->live.store(false);
        section.index.erase(entry->desc, entry->age);
        garbage.regions.push_back(entry);
    };
    for (const RemoteEntryPtr &entry : update.superseded)
        drop(peer->section(entry->engine, entry->memory), entry);
    if (update.current && blob.extension->full) {
        for (const auto &section : peer->sections_) {
            std::vector<RemoteEntryPtr> lacking;
            section->index.forEach([&](const RemoteEntryPtr &entry) {
                if (!update.confirmed.count(entry.get()))
                    lacking.push_back(entry);
            });
            for (const RemoteEntryPtr &entry : lacking)
                drop(*section, entry);
            gone += lacking.size();
        }
    }
    for (RemoteEntryPtr &entry : update.regions) {
        auto &index = peer->section(entry->engine, entry->memory).index;
        entry->age = index.insert(entry->desc, entry);
    }
    if (blob.extension) {
        peer->incarnation_ = blob.extension->incarnation;
        peer->epoch_ = std::max(peer->epoch_, blob.extension->epoch);
        if (blob.extension->full)
            peer->fullEpoch_ = std::max(peer->fullEpoch_, blob.extension->epoch);
    }
    if (!joins && (ways > 0 || gone > 0 || !update.regions.empty()))
        events_->updated(*peer->life,
                         concat("registrations: ", update.regions.size(), " new, ", gone, " ended",
                                ways > 0 ? concat("; connections: ", ways, " new") : ""));
}

void
Peers::retire(const PeerPtr &peer, Garbage &garbage) {
    peer->live.store(false);
    for (const PeerLink &link : peer->links_)
        events_->forget(*link.peer);
    for (const auto &section : peer->sections_) {
        section->index.forEach([&](const RemoteEntryPtr &entry) {
            entry->live.store(false);
            garbage.regions.push_back(entry);
        });
    }
    garbage.peers.push_back(peer);
}

/// The life ends before the peer is not live: who sees the second can tell why.
void
Peers::retireLost(const PeerPtr &peer, const std::string &why, Garbage &garbage) {
    events_->lost(*peer->life, why);
    retire(peer, garbage);
}

Status
Peers::invalidate(const std::string &name) {
    if (name == ownName_)
        return Status::error(NIXL_ERR_INVALID_PARAM, "'", name, "' is this agent itself");
    Garbage garbage;
    LockGuard loading(loading_);
    WriteLock lock(mutex_);
    const auto found = peers_.find(name);
    if (found == peers_.end())
        return Status::error(NIXL_ERR_NOT_FOUND, "no metadata of an agent '", name, "' is loaded");
    events_->left(*found->second->life, "the program removed it");
    retire(found->second, garbage);
    peers_.erase(found);
    return {};
}

void
Peers::drop(const PeerPtr &peer, const std::string &why) {
    Garbage garbage;
    LockGuard loading(loading_);
    WriteLock lock(mutex_);
    const auto found = peers_.find(peer->name);
    if (found == peers_.end() || found->second != peer)
        return;
    peers_.erase(found);
    retireLost(peer, why, garbage);
}

void
Peers::dropLost() {
    Garbage garbage;
    LockGuard loading(loading_);
    WriteLock lock(mutex_);
    for (auto peer = peers_.begin(); peer != peers_.end();) {
        if (!peer->second->life->lost()) {
            ++peer;
            continue;
        }
        retire(peer->second, garbage);
        peer = peers_.erase(peer);
    }
}

void
Peers::clear() {
    Garbage garbage;
    LockGuard loading(loading_);
    WriteLock lock(mutex_);
    for (const auto &[name, peer] : peers_)
        retire(peer, garbage);
    peers_.clear();
}

PeerPtr
Peers::find(const std::string &name) const {
    ReadLock lock(mutex_);
    const auto found = peers_.find(name);
    return found == peers_.end() ? nullptr : found->second;
}

std::vector<PeerLink>
Peers::links(const PeerState &peer) const {
    ReadLock lock(mutex_);
    return peer.links_;
}

std::optional<PeerLink>
Peers::link(const PeerState &peer, const EngineSlot *engine) const {
    ReadLock lock(mutex_);
    for (const PeerLink &link : peer.links_) {
        if (link.engine.get() == engine)
            return link;
    }
    return std::nullopt;
}

EngineList
Peers::enginesWith(const PeerState &peer, nixl_mem_t memory) const {
    EngineList engines;
    ReadLock lock(mutex_);
    for (const auto &section : peer.sections_) {
        if (section->memory == memory && section->index.size() > 0)
            engines.push_back(section->engine);
    }
    return engines;
}

} // namespace nixl
