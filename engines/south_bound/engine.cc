#include "engines/south_bound/engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engines/south_bound/request.h"
#include "utils/common/nixl_log.h"

namespace nixl::south_bound {

Result<std::unique_ptr<Engine>>
SouthBoundEngine::create(std::shared_ptr<const Plugin> plugin, const EngineConfig &config) {
    std::unique_ptr<SouthBoundEngine> engine(new SouthBoundEngine(std::move(plugin), config));
    Status status;
    {
        LockGuard lock(engine->mutex_);
        status = engine->start();
    }
    if (!status.ok())
        return status;
    return std::unique_ptr<Engine>(std::move(engine));
}

SouthBoundEngine::SouthBoundEngine(std::shared_ptr<const Plugin> plugin, const EngineConfig &config)
    : plugin_(std::move(plugin)), config_(config) {
    initParams_.localAgent = config_.agentName;
    initParams_.type = plugin_->info.name;
    initParams_.customParams = &config_.params;
    initParams_.enableProgTh = config_.progressThread;
    initParams_.pthrDelay = static_cast<nixlTime::us_t>(config_.progressDelay.count());
    initParams_.syncMode = config_.syncMode;
    initParams_.enableTelemetry_ = config_.telemetry;
}

SouthBoundEngine::~SouthBoundEngine() {
    // In a forked child the plugin's threads and locks are in an unknown state: leave them alone.
    if (forkGuard_.inherited())
        return;
    {
        LockGuard lock(mutex_);
        stop_ = true;
        wake_.notifyAll();
    }
    poller_.join();
    LockGuard lock(mutex_);
    if (foreign_ == nullptr)
        return;
    const Status status = call("destroy_engine", [this](nixlBackendEngine &foreign) {
        plugin_->description->destroy_engine(&foreign);
        return NIXL_SUCCESS;
    });
    if (!status.ok())
        NIXL_WARN << status.message();
}

Status
SouthBoundEngine::start() {
    nixlBackendEngine *made = nullptr;
    NIXL_RETURN_IF_ERROR(callPlugin(name(), "create_engine", [&] {
        made = plugin_->description->create_engine(&initParams_);
        return NIXL_SUCCESS;
    }));
    foreign_ = made;
    if (foreign_ == nullptr)
        return Status::error(NIXL_ERR_BACKEND, "plugin ", name(),
                             " could not make an engine; the log may say why");
    if (foreign_->getInitErr())
        return Status::error(NIXL_ERR_BACKEND, "the engine of plugin ", name(), " could not start");
    NIXL_RETURN_IF_ERROR(call("capabilities", [this](const nixlBackendEngine &foreign) {
        capabilities_ = {foreign.getSupportedMems(), foreign.supportsLocal(), foreign.supportsRemote(),
                         foreign.supportsNotif()};
        return NIXL_SUCCESS;
    }));
    if (capabilities_.remote && !capabilities_.notifications)
        return Status::error(NIXL_ERR_BACKEND, "plugin ", name(),
                             " reaches other agents but has no notifications; it must have both");
    if (capabilities_.remote) {
        std::string info;
        NIXL_RETURN_IF_ERROR(
            call("getConnInfo", [&](nixlBackendEngine &foreign) { return foreign.getConnInfo(info); }));
    }
    if (capabilities_.local)
        NIXL_RETURN_IF_ERROR(
            call("connect", [this](nixlBackendEngine &foreign) { return foreign.connect(agent()); }));
    return {};
}

const Capabilities &
SouthBoundEngine::capabilities() const {
    return capabilities_;
}

Status
SouthBoundEngine::checkMemory(nixl_mem_t memory) const {
    const nixl_mem_list_t &kinds = capabilities_.memories;
    if (std::find(kinds.begin(), kinds.end(), memory) != kinds.end())
        return {};
    return Status::error(NIXL_ERR_NOT_SUPPORTED, "plugin ", name(), " does not register ",
                         nixlEnumStrings::memTypeStr(memory));
}

Result<Path>
SouthBoundEngine::path(nixl_xfer_op_t, nixl_mem_t localMemory, nixl_mem_t remoteMemory, Peer *peer) {
    NIXL_RETURN_IF_ERROR(checkMemory(localMemory));
    NIXL_RETURN_IF_ERROR(checkMemory(remoteMemory));
    if (peer == nullptr ? !capabilities_.local : !capabilities_.remote)
        return Status::error(NIXL_ERR_NOT_SUPPORTED, "plugin ", name(), " has no ",
                             peer == nullptr ? "transfers within an agent" : "transfers between agents");
    if (peer != nullptr)
        NIXL_RETURN_IF_ERROR(connect(*peer));
    // The interface has no way to ask for costs before there is a request: a plugin is neither favoured over
    // an engine that knows its own, nor made unreasonably dear.
    Path path;
    path.lane = name();
    path.reason = concat("plugin ", name(), plugin_->info.version.empty() ? "" : " ", plugin_->info.version);
    path.latencyUs = 20;
    path.bytesPerUs = 1000;
    path.perBlockUs = 1;
    path.peerTakesPart = peer != nullptr;
    return path;
}

Result<std::unique_ptr<EngineRequest>>
SouthBoundEngine::prepare(const TransferSpec &spec) {
    return SouthBoundRequest::create(*this, spec);
}

Result<std::pair<std::chrono::microseconds, std::chrono::microseconds>>
SouthBoundEngine::estimate(const TransferSpec &spec) const {
    // The plugin estimates requests, so one is made for the question. That changes nothing of what callers
    // see.
    auto &self = const_cast<SouthBoundEngine &>(*this);
    Result<std::unique_ptr<EngineRequest>> request = SouthBoundRequest::create(self, spec);
    if (!request.ok())
        return request.status();
    return static_cast<SouthBoundRequest &>(*request.value()).estimate();
}

Status
SouthBoundEngine::notify(Peer *peer, std::string_view message) {
    if (!capabilities_.notifications)
        return Engine::notify(peer, message);
    LockGuard lock(mutex_);
    if (peer != nullptr)
        NIXL_RETURN_IF_ERROR(connectPeer(*static_cast<SouthBoundPeer *>(peer)->state));
    const std::string &target = peer == nullptr ? agent() : static_cast<SouthBoundPeer *>(peer)->state->name;
    return call("genNotif",
                [&](nixlBackendEngine &foreign) { return foreign.genNotif(target, std::string(message)); });
}

Status
SouthBoundEngine::takeNotifications(std::vector<Notification> &out) {
    if (!capabilities_.notifications)
        return Engine::takeNotifications(out);
    LockGuard lock(mutex_);
    const Status status = collect();
    // What arrived before an error is not lost with it.
    std::move(arrived_.begin(), arrived_.end(), std::back_inserter(out));
    arrived_.clear();
    return status;
}

Status
SouthBoundEngine::collect() {
    notif_list_t arrived;
    Status status = call("getNotifs", [&](nixlBackendEngine &foreign) { return foreign.getNotifs(arrived); });
    for (auto &[agent, message] : arrived)
        arrived_.push_back({std::move(agent), std::move(message)});
    const bool failed = std::exchange(collected_, status.ok()) && !status.ok();
    if ((failed || !arrived.empty()) && config_.onActivity)
        config_.onActivity();
    return status;
}

bool
SouthBoundEngine::watch() {
    // Of transfers the thread tells in any case.
    if (!capabilities_.notifications || watched_.load())
        return true;
    LockGuard lock(mutex_);
    watched_.store(true);
    fresh_ = true;
    startPolling();
    return true;
}

std::vector<nixlTelemetryEvent>
SouthBoundEngine::takeTelemetry() {
    LockGuard lock(mutex_);
    return foreign_->getTelemetryEvents();
}

void
SouthBoundEngine::activate(SouthBoundRequest &request) {
    active_.insert(&request);
    fresh_ = true;
    startPolling();
}

void
SouthBoundEngine::startPolling() {
    if (!polling_) {
        poller_.start("nixl-plugin", [this] { pollLoop(); });
        polling_ = true;
    }
    wake_.notifyAll();
}

void
SouthBoundEngine::deactivate(SouthBoundRequest &request) {
    active_.erase(&request);
    ended_.notifyAll();
    if (config_.onActivity)
        config_.onActivity();
}

bool
SouthBoundEngine::waitForEnd(const SouthBoundRequest &request, std::chrono::milliseconds patience) {
    return ended_.waitFor(mutex_, patience, [&] { return !request.inProgress(); });
}

void
SouthBoundEngine::pollLoop() {
    // Short transfers are seen soon, long ones cost a poll per millisecond.
    constexpr std::chrono::microseconds kShortest{50};
    constexpr std::chrono::microseconds kLongest{1000};
    std::chrono::microseconds pause = kShortest;
    LockGuard lock(mutex_);
    while (!stop_) {
        if (active_.empty() && !watched_)
            wake_.wait(mutex_, [this]() NIXL_REQUIRES(mutex_) { return stop_ || fresh_; });
        if (std::exchange(fresh_, false))
            pause = kShortest;
        const std::vector<SouthBoundRequest *> requests(active_.begin(), active_.end());
        for (SouthBoundRequest *request : requests)
            request->poll();
        bool any = active_.size() < requests.size();
        if (watched_) {
            const std::size_t before = arrived_.size();
            (void)collect(); // an error is for those who ask
            any |= arrived_.size() > before;
        }
        pause = any ? kShortest : std::min(2 * pause, kLongest);
        wake_.waitFor(mutex_, pause, [this]() NIXL_REQUIRES(mutex_) { return stop_ || fresh_; });
    }
}

} // namespace nixl::south_bound
