// One engine of a south-bound plugin, as the core sees engines.
//
// Plugins need not be thread-safe: every call into the plugin's engine is made under one mutex. A thread
// polls what is in progress, so transfers end, and their notifications leave, without the program's help;
// once somebody waits it looks for arrived ones, too.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "engines/south_bound/guard.h"
#include "engines/south_bound/plugin.h"
#include "engines/south_bound/regions.h"
#include "util/fork_guard.h"
#include "util/mutex.h"
#include "util/worker.h"

namespace nixl::south_bound {

class SouthBoundEngine : public Engine {
public:
    static Result<std::unique_ptr<Engine>> create(std::shared_ptr<const Plugin> plugin,
                                                  const EngineConfig &config);
    ~SouthBoundEngine() override;

    const Capabilities &capabilities() const override;

    Result<std::unique_ptr<LocalRegion>> registerRegion(const nixlBlobDesc &desc, nixl_mem_t memory) override;
    Status deregisterRegion(LocalRegion &region) override;
    Result<std::string> publicData(const LocalRegion &region) const override;
    Result<std::unique_ptr<RemoteRegion>> loopbackRegion(LocalRegion &region, const nixlBlobDesc &desc,
                                                         nixl_mem_t memory) override;
    Result<std::vector<nixl_query_resp_t>> queryMemory(const nixl_reg_dlist_t &descs) const override;

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
    std::vector<nixlTelemetryEvent> takeTelemetry() override;

    /// The thread takes in messages, too, from now on.
    bool watch() override;

    // ---- For its regions, peers and requests ----

    Mutex &
    mutex() const NIXL_ANNOTATE(lock_returned(mutex_)) {
        return mutex_;
    }

    const std::string &
    name() const {
        return plugin_->info.name;
    }

    const std::string &
    agent() const {
        return config_.agentName;
    }

    /// For functions whose callers hold mutex() under a name that the analysis cannot follow.
    void
    assertLocked() const NIXL_ANNOTATE(assert_capability(mutex_)) {}

    /// Calls function(nixlBackendEngine &), see callPlugin().
    template<typename Function>
    Status
    call(const char *what, Function function) const NIXL_REQUIRES(mutex_) {
        nixlBackendEngine &foreign = *foreign_;
        return callPlugin(name(), what, [&] { return function(foreign); });
    }

    /// Calls function(nixlBackendEngine &), see south_bound::callForProgress().
    template<typename Function>
    Progress
    callForProgress(const char *what, Function function) const NIXL_REQUIRES(mutex_) {
        nixlBackendEngine &foreign = *foreign_;
        return south_bound::callForProgress(name(), what, [&] { return function(foreign); });
    }

    /// The request is in progress from now on: poll it.
    void activate(SouthBoundRequest &request) NIXL_REQUIRES(mutex_);

    /// The request is not in progress any more.
    void deactivate(SouthBoundRequest &request) NIXL_REQUIRES(mutex_);

    /// Waits until the request has ended, at most `patience`; true if it has.
    bool waitForEnd(const SouthBoundRequest &request, std::chrono::milliseconds patience)
        NIXL_REQUIRES(mutex_);

    Status deregister(LocalSide &side) NIXL_REQUIRES(mutex_);
    void unload(RemoteSide &side) NIXL_REQUIRES(mutex_);
    void disconnect(PeerState &peer) NIXL_REQUIRES(mutex_);

private:
    SouthBoundEngine(std::shared_ptr<const Plugin> plugin, const EngineConfig &config);

    Status start() NIXL_REQUIRES(mutex_);
    Status connectPeer(PeerState &peer) NIXL_REQUIRES(mutex_);
    Status checkMemory(nixl_mem_t memory) const;
    /// Closes the requests that `forEachUser(visit)` visits, waits until none is in progress and takes the
    /// plugin's handles from them. The mutex is given up while waiting, so requests may come and go.
    template<typename ForEachUser>
    Status endUsers(ForEachUser forEachUser, const std::string &reason) NIXL_REQUIRES(mutex_);
    /// Takes in what has arrived at the plugin. Tells of it, and of an error if the last call had none.
    Status collect() NIXL_REQUIRES(mutex_);
    void startPolling() NIXL_REQUIRES(mutex_);
    /// Makes room for another life of a peer.
    Status retire(PeerState &peer) NIXL_REQUIRES(mutex_);
    void pollLoop();

    const std::shared_ptr<const Plugin> plugin_;
    EngineConfig config_;                // constant; the plugin may keep a pointer into its parameters
    nixlBackendInitParams initParams_{}; // constant; the plugin may keep a pointer to it
    Capabilities capabilities_;          // constant after start()
    ForkGuard forkGuard_;

    mutable Mutex mutex_;
    nixlBackendEngine *foreign_ NIXL_GUARDED_BY(mutex_) = nullptr; // constant after start()
    std::unordered_map<std::string, std::weak_ptr<PeerState>> peers_ NIXL_GUARDED_BY(mutex_);
    std::unordered_set<SouthBoundRequest *> active_ NIXL_GUARDED_BY(mutex_);
    std::vector<Notification> arrived_ NIXL_GUARDED_BY(mutex_);
    bool collected_ NIXL_GUARDED_BY(mutex_) = true; // the last collect() had no error
    bool polling_ NIXL_GUARDED_BY(mutex_) = false;  // the thread runs
    bool fresh_ NIXL_GUARDED_BY(mutex_) = false;    // there is something new to poll
    std::atomic<bool> watched_{false};              // the thread collects; written under mutex_
    bool stop_ NIXL_GUARDED_BY(mutex_) = false;
    ConditionVariable wake_;  // the thread waits for work
    ConditionVariable ended_; // others wait for the end of requests
    Worker poller_;
};

} // namespace nixl::south_bound
