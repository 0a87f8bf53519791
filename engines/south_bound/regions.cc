// Registrations and peers: the half of SouthBoundEngine that gives and takes what requests use.
#include "engines/south_bound/regions.h"

#include "engines/south_bound/engine.h"
#include "engines/south_bound/request.h"
#include "utils/common/nixl_log.h"

namespace nixl::south_bound {

namespace {

// How long a call waits for transfers that use what it takes away.
constexpr std::chrono::milliseconds kPatience{1000};

} // namespace

LocalSide::~LocalSide() {
    LockGuard lock(engine.mutex());
    if (registered) {
        if (const Status status = engine.deregister(*this); !status.ok())
            NIXL_WARN << status.message();
    }
    for (RemoteSide *loopback : loopbacks)
        loopback->own = nullptr;
}

RemoteSide::~RemoteSide() {
    LockGuard lock(engine.mutex());
    engine.unload(*this);
    if (own != nullptr)
        own->loopbacks.erase(this);
    if (peer != nullptr)
        peer->regions.erase(this);
}

PeerState::~PeerState() {
    LockGuard lock(engine.mutex());
    engine.disconnect(*this);
}

Result<std::unique_ptr<LocalRegion>>
SouthBoundEngine::registerRegion(const nixlBlobDesc &desc, nixl_mem_t memory) {
    NIXL_RETURN_IF_ERROR(checkMemory(memory));
    nixlBackendMD *md = nullptr;
    LockGuard lock(mutex_);
    NIXL_RETURN_IF_ERROR(call(
        "registerMem", [&](nixlBackendEngine &foreign) { return foreign.registerMem(desc, memory, md); }));
    return std::unique_ptr<LocalRegion>(std::make_unique<LocalSide>(*this, md, memory));
}

Status
SouthBoundEngine::deregisterRegion(LocalRegion &region) {
    LockGuard lock(mutex_);
    return deregister(static_cast<LocalSide &>(region));
}

Status
SouthBoundEngine::deregister(LocalSide &side) {
    side.closed = true;
    const auto forEachUser = [&](auto visit) {
        for (SouthBoundRequest *request : side.users)
            visit(*request);
        for (const RemoteSide *loopback : side.loopbacks)
            for (SouthBoundRequest *request : loopback->users)
                visit(*request);
    };
    NIXL_RETURN_IF_ERROR(endUsers(forEachUser, "the memory was deregistered"));
    for (RemoteSide *loopback : side.loopbacks)
        unload(*loopback);
    NIXL_RETURN_IF_ERROR(
        call("deregisterMem", [&](nixlBackendEngine &foreign) { return foreign.deregisterMem(side.md); }));
    side.registered = false;
    return {};
}

template<typename ForEachUser>
Status
SouthBoundEngine::endUsers(ForEachUser forEachUser, const std::string &reason) {
    forEachUser([&](SouthBoundRequest &request) { request.close(reason); });
    const auto idle = [&] {
        bool running = false;
        forEachUser([&](const SouthBoundRequest &request) { running |= request.inProgress(); });
        return !running;
    };
    if (!ended_.waitFor(mutex_, kPatience, idle))
        return Status::error(NIXL_ERR_BACKEND, "plugin ", name(), ": a transfer is still running after ",
                             kPatience.count(), " ms");
    forEachUser([](SouthBoundRequest &request) { request.dropHandle(); });
    return {};
}

Result<std::string>
SouthBoundEngine::publicData(const LocalRegion &region) const {
    if (!capabilities_.remote)
        return Engine::publicData(region);
    std::string data;
    LockGuard lock(mutex_);
    NIXL_RETURN_IF_ERROR(call("getPublicData", [&](nixlBackendEngine &foreign) {
        return foreign.getPublicData(static_cast<const LocalSide &>(region).md, data);
    }));
    return data;
}

Result<std::unique_ptr<RemoteRegion>>
SouthBoundEngine::loopbackRegion(LocalRegion &region, const nixlBlobDesc &, nixl_mem_t) {
    auto &side = static_cast<LocalSide &>(region);
    nixlBackendMD *md = nullptr;
    LockGuard lock(mutex_);
    if (side.closed)
        return Status::error(NIXL_ERR_NOT_FOUND, "the memory was deregistered");
    NIXL_RETURN_IF_ERROR(
        call("loadLocalMD", [&](nixlBackendEngine &foreign) { return foreign.loadLocalMD(side.md, md); }));
    auto loopback = std::make_unique<RemoteSide>(*this, md, side.memory);
    loopback->own = &side;
    side.loopbacks.insert(loopback.get());
    return std::unique_ptr<RemoteRegion>(std::move(loopback));
}

Result<std::vector<nixl_query_resp_t>>
SouthBoundEngine::queryMemory(const nixl_reg_dlist_t &descs) const {
    std::vector<nixl_query_resp_t> answers;
    LockGuard lock(mutex_);
    NIXL_RETURN_IF_ERROR(
        call("queryMem", [&](nixlBackendEngine &foreign) { return foreign.queryMem(descs, answers); }));
    return answers;
}

Result<std::string>
SouthBoundEngine::connectionInfo() const {
    if (!capabilities_.remote)
        return Engine::connectionInfo();
    std::string info;
    LockGuard lock(mutex_);
    NIXL_RETURN_IF_ERROR(
        call("getConnInfo", [&](nixlBackendEngine &foreign) { return foreign.getConnInfo(info); }));
    return info;
}

Result<std::shared_ptr<Peer>>
SouthBoundEngine::loadPeer(const std::string &peerName, std::string_view info) {
    if (!capabilities_.remote)
        return Engine::loadPeer(peerName, info);
    auto state = std::make_shared<PeerState>(*this, peerName);
    std::shared_ptr<PeerState> former; // outlives the lock, which its destructor takes
    LockGuard lock(mutex_);
    if (const auto found = peers_.find(peerName); found != peers_.end())
        former = found->second.lock();
    if (former != nullptr)
        NIXL_RETURN_IF_ERROR(retire(*former));
    NIXL_RETURN_IF_ERROR(call("loadRemoteConnInfo", [&](nixlBackendEngine &foreign) {
        return foreign.loadRemoteConnInfo(peerName, std::string(info));
    }));
    state->loaded = true;
    peers_[peerName] = state;
    return std::shared_ptr<Peer>(std::make_shared<SouthBoundPeer>(std::move(state)));
}

Status
SouthBoundEngine::retire(PeerState &peer) {
    const auto forEachUser = [&](auto visit) {
        for (const RemoteSide *region : peer.regions)
            for (SouthBoundRequest *request : region->users)
                visit(*request);
    };
    // Transfers of the former life have nothing to arrive at.
    forEachUser([](SouthBoundRequest &request) {
        if (request.inProgress())
            request.stop();
    });
    const std::string reason = concat("agent ", peer.name, " was loaded again");
    if (const Status status = endUsers(forEachUser, reason); !status.ok())
        return Status::error(NIXL_ERR_NOT_ALLOWED, "agent ", peer.name,
                             " cannot be loaded again: ", status.message());
    for (RemoteSide *region : peer.regions)
        unload(*region);
    disconnect(peer);
    return {};
}

Status
SouthBoundEngine::connect(Peer &peer) {
    LockGuard lock(mutex_);
    return connectPeer(*static_cast<SouthBoundPeer &>(peer).state);
}

Status
SouthBoundEngine::connectPeer(PeerState &peer) {
    if (!peer.loaded)
        return Status::error(NIXL_ERR_NOT_FOUND, "agent ", peer.name, " was loaded again since");
    if (peer.connected)
        return {};
    NIXL_RETURN_IF_ERROR(
        call("connect", [&](nixlBackendEngine &foreign) { return foreign.connect(peer.name); }));
    peer.connected = true;
    return {};
}

Result<std::unique_ptr<RemoteRegion>>
SouthBoundEngine::loadRegion(Peer &peer, const nixlBasicDesc &desc, nixl_mem_t memory,
                             std::string_view publicData) {
    NIXL_RETURN_IF_ERROR(checkMemory(memory));
    const std::shared_ptr<PeerState> &state = static_cast<SouthBoundPeer &>(peer).state;
    const nixlBlobDesc described(desc, std::string(publicData));
    nixlBackendMD *md = nullptr;
    LockGuard lock(mutex_);
    if (!state->loaded)
        return Status::error(NIXL_ERR_NOT_FOUND, "agent ", state->name, " was loaded again since");
    NIXL_RETURN_IF_ERROR(call("loadRemoteMD", [&](nixlBackendEngine &foreign) {
        return foreign.loadRemoteMD(described, memory, state->name, md);
    }));
    auto region = std::make_unique<RemoteSide>(*this, md, memory);
    region->peer = state;
    state->regions.insert(region.get());
    return std::unique_ptr<RemoteRegion>(std::move(region));
}

void
SouthBoundEngine::unload(RemoteSide &side) {
    if (!side.loaded)
        return;
    side.loaded = false;
    const Status status =
        call("unloadMD", [&](nixlBackendEngine &foreign) { return foreign.unloadMD(side.md); });
    if (!status.ok())
        NIXL_WARN << status.message();
}

void
SouthBoundEngine::disconnect(PeerState &peer) {
    if (!peer.loaded)
        return;
    peer.loaded = false;
    const Status status =
        call("disconnect", [&](nixlBackendEngine &foreign) { return foreign.disconnect(peer.name); });
    // A peer that died cannot be told goodbye.
    if (!status.ok())
        NIXL_DEBUG << status.message();
}

} // namespace nixl::south_bound
