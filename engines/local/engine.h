// The same-host engine: copies within the process, and to and from other processes of the host.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engines/local/endpoint.h"
#include "engines/local/host_process.h"
#include "engines/local/listener.h"
#include "engines/local/peer.h"
#include "engines/local/reach.h"
#include "engines/local/settings.h"
#include "util/fork_guard.h"

namespace nixl::local {

/// README.md has the protocol, docs/threading.md the threads. In a forked child, engines of the parent answer
/// NIXL_ERR_NOT_ALLOWED, and their destruction does nothing.
class LocalEngine : public Engine {
public:
    static Result<std::unique_ptr<Engine>> create(const EngineConfig &config, const Settings &settings);
    ~LocalEngine() override;

    const Capabilities &capabilities() const override;

    Result<std::unique_ptr<LocalRegion>> registerRegion(const nixlBlobDesc &desc, nixl_mem_t memory) override;
    Status deregisterRegion(LocalRegion &region) override;
    Status registerRegions(std::span<const nixlBlobDesc> descs, nixl_mem_t memory,
                           std::vector<std::unique_ptr<LocalRegion>> &out) override;
    std::vector<Unended> deregisterRegions(std::span<LocalRegion *const> regions) override;
    void discardRegions(std::span<LocalRegion *const> regions) override;
    Result<std::string> publicData(const LocalRegion &region) const override;
    Result<std::unique_ptr<RemoteRegion>> loopbackRegion(LocalRegion &region, const nixlBlobDesc &desc,
                                                         nixl_mem_t memory) override;

    Result<std::string> connectionInfo() const override;
    Result<std::shared_ptr<Peer>> loadPeer(const std::string &name, std::string_view info) override;
    Status connect(Peer &peer) override;
    Result<HostLane> meet(Peer &peer) override;
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
    bool watch() override;

private:
    LocalEngine(std::shared_ptr<HostProcess> process, std::shared_ptr<Endpoint> endpoint,
                std::unique_ptr<Listener> listener, const Settings &settings);

    Status checkUse(nixl_mem_t memory) const;
    Result<Lane> laneTo(Peer *peer);
    void takeBack(std::uint64_t lent);
    Reach reach(const TransferSpec &spec, std::chrono::milliseconds patience) const;

    std::shared_ptr<HostProcess> process_;
    std::shared_ptr<Endpoint> endpoint_;
    std::unique_ptr<Listener> listener_;
    const Settings settings_;
    const Capabilities capabilities_;
    const ForkGuard guard_;
};

} // namespace nixl::local
