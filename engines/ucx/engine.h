// The engine UCX: other hosts, through UCX, with the bytes of NIXL 1.5.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/anteroom.h"
#include "engine/engine.h"
#include "engines/ucx/block_server.h"
#include "engines/ucx/context.h"
#include "engines/ucx/liveness.h"
#include "engines/ucx/packed_share.h"
#include "engines/ucx/peer.h"
#include "engines/ucx/receiver.h"
#include "engines/ucx/region_keys.h"
#include "engines/ucx/worker.h"

namespace nixl::ucx {

class UcxEngine : public Engine {
public:
    /// `settings` are those of the configuration's parameters.
    /// NIXL_ERR_INVALID_PARAM: this UCX does not accept one; NIXL_ERR_BACKEND: UCX does not start.
    static Result<std::unique_ptr<Engine>> create(const EngineConfig &config, Settings settings,
                                                  std::shared_ptr<const Library> library);

    /// Waits a bounded time for messages that are on their way. REQUIRES: regions, peers and requests are
    /// gone.
    ~UcxEngine() override;

    void halt() override;
    const Capabilities &capabilities() const override;

    Result<std::unique_ptr<LocalRegion>> registerRegion(const nixlBlobDesc &desc, nixl_mem_t memory) override;
    Status registerRegions(std::span<const nixlBlobDesc> descs, nixl_mem_t memory,
                           std::vector<std::unique_ptr<LocalRegion>> &out) override;
    Status deregisterRegion(LocalRegion &region) override;
    std::vector<Unended> deregisterRegions(std::span<LocalRegion *const> regions) override;
    Result<std::string> publicData(const LocalRegion &region) const override;
    Result<std::unique_ptr<RemoteRegion>> loopbackRegion(LocalRegion &region, const nixlBlobDesc &desc,
                                                         nixl_mem_t memory) override;

    Result<std::string> connectionInfo() const override;
    Result<std::shared_ptr<Peer>> loadPeer(const std::string &name, std::string_view info) override;
    Status connect(Peer &peer) override;
    Result<std::unique_ptr<RemoteRegion>> loadRegion(Peer &peer, const nixlBasicDesc &desc, nixl_mem_t memory,
                                                     std::string_view publicData) override;

    Result<Path> path(nixl_xfer_op_t operation, nixl_mem_t localMemory, nixl_mem_t remoteMemory,
                      Peer *peer) override;
    Result<std::unique_ptr<EngineRequest>> prepare(const TransferSpec &spec) override;
    Result<std::pair<std::chrono::microseconds, std::chrono::microseconds>>
    estimate(const TransferSpec &spec) const override;

    Status notify(Peer *peer, std::string_view message) override;
    Status takeNotifications(std::vector<Notification> &out) override;
    void takeFailures(std::vector<FailedNotification> &out) override;

    /// Starts threads for the workers that have none.
    bool watch() override;

private:
    UcxEngine(const EngineConfig &config, Settings settings);

    Status start(std::shared_ptr<const Library> library, bool progressThread);
    Status takeBlocks(ProgressWorker &worker);
    std::string noDeviceMemory() const;
    Status checkMemory(nixl_mem_t memory) const;
    Result<std::vector<ProgressWorker *>> workersFor(const TransferSpec &spec);
    Status seePeer(UcxPeer &peer) const;
    Status reach(UcxPeer &peer) const;
    Status judged(UcxPeer &peer, Status failure) const;
    Result<Path> pathOf(UcxPeer &peer) const;
    bool packs(const UcxPeer &peer, const std::vector<std::string> &transports) const;
    bool packs(const TransferSpec &spec, UcxPeer &peer) const;
    void driveAll();
    void drainLetters();
    void drain();
    Status notifySelf(std::string_view message);
    Status awaitRoom(Connection &connection, bool letters);
    void undelivered(const std::string &peer, const std::string &payload, LetterKind kind,
                     const std::string &why) const;

    const std::string agentName_;
    const Settings settings_;
    const std::shared_ptr<const Options> options_;
    const std::function<void()> onActivity_;
    const decltype(EngineConfig::onUndelivered) onUndelivered_;
    const UcxPeer::Listeners listeners_;
    Capabilities capabilities_;

    std::unique_ptr<Context> context_;
    // What arrives at the workers, which end before these.
    Inbox inbox_;
    std::unique_ptr<Receiver> receiver_; ///< of worker 0, whose address peers have
    Anteroom toSelf_{inbox_};            ///< messages of the agent to itself
    RegionKeys keys_;
    std::vector<std::unique_ptr<BlockServer>> servers_;    ///< by worker
    std::vector<std::unique_ptr<RunTable>> runs_;          ///< by worker
    std::size_t mostPieces_ = kMessagePieces;              ///< of a message
    std::vector<std::unique_ptr<ProgressWorker>> workers_; ///< the last settings_.threads are dedicated
    std::atomic<bool> watched_{false};                     ///< each of the workers has a thread
    Mutex watching_;                                       ///< held while threads are started
    bool unwatchable_ NIXL_GUARDED_BY(watching_) = false;  ///< a worker cannot have one
    std::string address_;                                  ///< of worker 0
    KeptConnections kept_;
    std::unique_ptr<Liveness> liveness_;
    std::unique_ptr<UcxPeer> self_;
    std::atomic<unsigned> nextWorker_{0};
};

} // namespace nixl::ucx
