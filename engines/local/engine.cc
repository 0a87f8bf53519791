#include "engines/local/engine.h"

#include <algorithm>

#include "engines/local/delivery.h"
#include "engines/local/identity.h"
#include "engines/local/mapping_check.h"
#include "engines/local/regions.h"
#include "engines/local/request.h"
#include "memory/sealed_memory.h"
#include "util/log.h"
#include "util/random.h"

namespace nixl::local {

Result<std::unique_ptr<Engine>>
LocalEngine::create(const EngineConfig &config, const Settings &settings) {
    if (config.agentName.size() > kMaxNameBytes)
        return Status::error(NIXL_ERR_BACKEND, "the agent's name has ", config.agentName.size(),
                             " bytes; LOCAL takes at most ", kMaxNameBytes);
    auto process = HostProcess::get();
    if (!process.ok())
        return process.status();
    auto table = RegionTable::create();
    if (!table.ok())
        return table.status();
    Incarnation incarnation;
    randomBytes(incarnation.data(), incarnation.size());
    auto endpoint = std::make_shared<Endpoint>(incarnation, config.agentName, std::move(table).value(),
                                               settings.notifQueueBytes, config.onActivity,
                                               config.onPeerChange, config.onUndelivered);
    auto listener = Listener::create(*process.value(), endpoint, settings);
    if (!listener.ok())
        return listener.status();
    process.value()->pool().allowThreads(settings.threads);
    process.value()->add(endpoint);
    return std::unique_ptr<Engine>(new LocalEngine(std::move(process).value(), std::move(endpoint),
                                                   std::move(listener).value(), settings));
}

LocalEngine::LocalEngine(std::shared_ptr<HostProcess> process, std::shared_ptr<Endpoint> endpoint,
                         std::unique_ptr<Listener> listener, const Settings &settings)
    : process_(std::move(process)), endpoint_(std::move(endpoint)), listener_(std::move(listener)),
      settings_(settings), capabilities_{{DRAM_SEG}, true, true, true} {}

LocalEngine::~LocalEngine() {
    if (guard_.inherited()) {
        // Threads, sockets and marks are the parent's.
        (void)listener_.release();
        new std::shared_ptr<HostProcess>(std::move(process_));
        new std::shared_ptr<Endpoint>(std::move(endpoint_));
        return;
    }
    process_->remove(endpoint_->incarnation);
    endpoint_->table.closeAll();
    endpoint_->end(); // peers of this process that hear of it find it closed
    listener_->stop();
    const Status quiet = listener_->accessors().waitQuiet(process_->marks(), settings_.quiesceTimeout);
    if (!quiet.ok())
        NIXL_LOG(kError, "LOCAL: the end of agent '", endpoint_->agent, "': ", quiet.message());
}

const Capabilities &
LocalEngine::capabilities() const {
    return capabilities_;
}

Status
LocalEngine::checkUse(nixl_mem_t memory) const {
    if (guard_.inherited())
        return Status::error(NIXL_ERR_NOT_ALLOWED, "this process is a forked child; agent '",
                             endpoint_->agent, "' is its parent's");
    if (memory != DRAM_SEG)
        return Status::error(NIXL_ERR_NOT_SUPPORTED, "LOCAL reaches host memory (DRAM_SEG) only, not ",
                             nixlEnumStrings::memTypeStr(memory));
    return {};
}

Result<std::unique_ptr<LocalRegion>>
LocalEngine::registerRegion(const nixlBlobDesc &desc, nixl_mem_t memory) {
    std::vector<std::unique_ptr<LocalRegion>> regions;
    NIXL_RETURN_IF_ERROR(registerRegions({&desc, 1}, memory, regions));
    return std::move(regions.front());
}

Status
LocalEngine::registerRegions(std::span<const nixlBlobDesc> descs, nixl_mem_t memory,
                             std::vector<std::unique_ptr<LocalRegion>> &out) {
    NIXL_RETURN_IF_ERROR(checkUse(memory));
    MappingCheck mappings(descs.size());
    for (const nixlBlobDesc &desc : descs) {
        if (desc.len == 0)
            return Status::error(NIXL_ERR_INVALID_PARAM, "no memory at ", Hex{desc.addr},
                                 ": its length is 0");
        auto sealed = SealedMemory::covering(desc.addr, desc.len);
        if (const auto missing = mappings.unreachableEnd(desc.addr, desc.len, sealed != nullptr))
            return Status::error(NIXL_ERR_BACKEND, "the memory of ", desc.len, " bytes at ", Hex{desc.addr},
                                 " cannot be registered: address ", Hex{*missing},
                                 " is unmapped or protected");
        MemoryRange range{desc.addr, desc.len};
        if (sealed)
            range.sealed = endpoint_->lent.enter(std::move(sealed));
        const auto key = endpoint_->table.add(range);
        if (!key.ok()) {
            takeBack(range.sealed);
            return key.status();
        }
        out.push_back(std::make_unique<OwnRegion>(key.value(), range.sealed));
    }
    return {};
}

Status
LocalEngine::deregisterRegion(LocalRegion &region) {
    LocalRegion *const one = &region;
    auto unended = deregisterRegions({&one, 1});
    return unended.empty() ? Status() : std::move(unended.front().reason);
}

/// Closes all before it waits, once: what is quiet then is quiet for all of them.
std::vector<Engine::Unended>
LocalEngine::deregisterRegions(std::span<LocalRegion *const> regions) {
    Status status = checkUse(DRAM_SEG);
    if (status.ok() && !regions.empty()) {
        for (const LocalRegion *region : regions)
            endpoint_->table.close(static_cast<const OwnRegion &>(*region).key);
        status = listener_->accessors().waitQuiet(process_->marks(), settings_.quiesceTimeout);
    }
    std::vector<Unended> unended;
    for (std::size_t i = 0; i < regions.size(); ++i) {
        if (!status.ok()) {
            unended.push_back({i, status});
            continue;
        }
        const auto &own = static_cast<const OwnRegion &>(*regions[i]);
        endpoint_->table.recycle(own.key);
        takeBack(own.lent);
    }
    return unended;
}

/// Nobody can be copying: their keys were never told.
void
LocalEngine::discardRegions(std::span<LocalRegion *const> regions) {
    for (const LocalRegion *region : regions) {
        const auto &own = static_cast<const OwnRegion &>(*region);
        endpoint_->table.close(own.key);
        endpoint_->table.recycle(own.key);
        takeBack(own.lent);
    }
}

/// Ends a registration's part in memory that is lent; peers unmap it with the last one.
void
LocalEngine::takeBack(std::uint64_t lent) {
    if (lent != 0 && endpoint_->lent.leave(lent))
        listener_->memoryEnded(lent);
}

Result<std::string>
LocalEngine::publicData(const LocalRegion &region) const {
    return encodeRegionKey(static_cast<const OwnRegion &>(region).key);
}

Result<std::unique_ptr<RemoteRegion>>
LocalEngine::loopbackRegion(LocalRegion &region, const nixlBlobDesc &, nixl_mem_t memory) {
    NIXL_RETURN_IF_ERROR(checkUse(memory));
    return std::unique_ptr<RemoteRegion>(new PeerRegion(static_cast<OwnRegion &>(region).key));
}

Result<std::string>
LocalEngine::connectionInfo() const {
    return encodeConnectionInfo({endpoint_->incarnation, ownHints(), kRevision});
}

Result<std::shared_ptr<Peer>>
LocalEngine::loadPeer(const std::string &name, std::string_view info) {
    NIXL_RETURN_IF_ERROR(checkUse(DRAM_SEG));
    const auto decoded = decodeConnectionInfo(info);
    if (!decoded.ok())
        return decoded.status().withContext(concat("agent '", name, "'"));
    return std::shared_ptr<Peer>(new LocalPeer(*process_, endpoint_, settings_, name, decoded.value()));
}

Status
LocalEngine::connect(Peer &peer) {
    NIXL_RETURN_IF_ERROR(checkUse(DRAM_SEG));
    return static_cast<LocalPeer &>(peer).lane().status();
}

Result<HostLane>
LocalEngine::meet(Peer &peer) {
    NIXL_RETURN_IF_ERROR(checkUse(DRAM_SEG));
    const auto lane = laneTo(&peer);
    if (!lane.ok())
        return lane.status();
    return lane.value().channel ? HostLane::kHostMemory : HostLane::kSameProcess;
}

Result<std::unique_ptr<RemoteRegion>>
LocalEngine::loadRegion(Peer &peer, const nixlBasicDesc &, nixl_mem_t memory, std::string_view publicData) {
    NIXL_RETURN_IF_ERROR(checkUse(memory));
    const auto key = decodeRegionKey(publicData);
    if (!key.ok())
        return key.status().withContext(concat("agent '", static_cast<LocalPeer &>(peer).name(), "'"));
    return std::unique_ptr<RemoteRegion>(new PeerRegion(key.value()));
}

Result<Lane>
LocalEngine::laneTo(Peer *peer) {
    if (peer != nullptr)
        return static_cast<LocalPeer *>(peer)->lane();
    return Lane{endpoint_, nullptr};
}

Result<Path>
LocalEngine::path(nixl_xfer_op_t, nixl_mem_t localMemory, nixl_mem_t remoteMemory, Peer *peer) {
    NIXL_RETURN_IF_ERROR(checkUse(localMemory));
    NIXL_RETURN_IF_ERROR(checkUse(remoteMemory));
    const auto lane = laneTo(peer);
    if (!lane.ok())
        return lane.status();
    return lane.value().channel ? pathBetween() : pathWithin();
}

Result<std::unique_ptr<EngineRequest>>
LocalEngine::prepare(const TransferSpec &spec) {
    NIXL_RETURN_IF_ERROR(checkUse(spec.localMemory));
    NIXL_RETURN_IF_ERROR(checkUse(spec.remoteMemory));
    Reach reached = reach(spec, settings_.connectTimeout);
    auto plan = BatchPlan::make(spec.blocks,
                                {kBatchBytes, reached.throughKernel() ? kKernelBatchPieces : kBatchPieces});
    if (!plan.ok())
        return plan.status();
    auto *peer = static_cast<LocalPeer *>(spec.peer);
    return std::unique_ptr<EngineRequest>(new LocalRequest(
        *process_, endpoint_, settings_, spec, std::move(plan).value(), peer, std::move(reached)));
}

/// How the remote side of a transfer is reached. What cannot be told now is told by the post.
Reach
LocalEngine::reach(const TransferSpec &spec, std::chrono::milliseconds patience) const {
    if (spec.peer != nullptr) {
        const auto lane = static_cast<LocalPeer *>(spec.peer)->lane();
        if (lane.ok() && lane.value().channel)
            return reachThrough(*lane.value().channel, endpoint_->table.view(), spec, patience);
    }
    return Reach{pathWithin(), {}};
}

Result<std::pair<std::chrono::microseconds, std::chrono::microseconds>>
LocalEngine::estimate(const TransferSpec &spec) const {
    NIXL_RETURN_IF_ERROR(checkUse(spec.localMemory));
    const Path path = reach(spec, std::chrono::milliseconds(0)).path;
    const auto microseconds = std::chrono::ceil<std::chrono::microseconds>(
        std::chrono::duration<double, std::micro>(path.estimateUs(spec.blocks.size(), spec.bytes)));
    return std::pair(microseconds, microseconds / 2); // the machine may be busy
}

Status
LocalEngine::notify(Peer *peer, std::string_view message) {
    NIXL_RETURN_IF_ERROR(checkUse(DRAM_SEG));
    NIXL_RETURN_IF_ERROR(checkMessageSize(message.size(), settings_));
    const auto lane = laneTo(peer);
    if (!lane.ok())
        return lane.status();
    if (lane.value().channel)
        return lane.value().channel->send(message, settings_.notifTimeout);
    return deliverWithin(*endpoint_, *lane.value().endpoint, std::string(message), settings_.notifTimeout);
}

Status
LocalEngine::takeNotifications(std::vector<Notification> &out) {
    NIXL_RETURN_IF_ERROR(checkUse(DRAM_SEG));
    process_->loop().drive();
    if (endpoint_->inbox.take(out)) {
        // Other processes first: they bring in what they have at hand, and leave room behind it.
        listener_->resume();
        if (endpoint_->anteroom.letIn())
            endpoint_->signalActivity();
    }
    return {};
}

void
LocalEngine::takeFailures(std::vector<FailedNotification> &out) {
    if (guard_.inherited())
        return;
    process_->loop().drive();
    endpoint_->inbox.takeFailures(out);
}

/// Its threads work without calls anyway.
bool
LocalEngine::watch() {
    if (!guard_.inherited())
        process_->loop().leave();
    return true;
}

} // namespace nixl::local
