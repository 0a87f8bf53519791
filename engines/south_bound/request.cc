#include "engines/south_bound/request.h"

#include "engines/south_bound/guard.h"
#include "utils/common/nixl_log.h"

namespace nixl::south_bound {

Result<std::unique_ptr<EngineRequest>>
SouthBoundRequest::create(SouthBoundEngine &engine, const TransferSpec &spec) {
    // The object is destroyed outside the lock, which its destructor takes.
    std::unique_ptr<SouthBoundRequest> request(new SouthBoundRequest(engine, spec));
    Status status;
    {
        LockGuard lock(engine.mutex());
        request->linkUsers(true);
        status = request->prepareHandle();
    }
    if (!status.ok())
        return status;
    return std::unique_ptr<EngineRequest>(std::move(request));
}

SouthBoundRequest::SouthBoundRequest(SouthBoundEngine &engine, const TransferSpec &spec)
    : engine_(engine), spec_(spec), operation_(spec.operation), remoteAgent_(spec.peerName),
      local_(spec.localMemory), remote_(spec.remoteMemory) {
    args_.customParam = spec.customParam;
    local_.reserve(spec.blocks.size());
    remote_.reserve(spec.blocks.size());
    for (const Block &block : spec.blocks) {
        const LocalRegionRef &local = spec.localRegions[block.localRegion];
        const RemoteRegionRef &remote = spec.remoteRegions[block.remoteRegion];
        local_.addDesc(nixlMetaDesc(nixlBasicDesc(block.local, block.length, local.devId),
                                    static_cast<LocalSide *>(local.region)->md));
        remote_.addDesc(nixlMetaDesc(nixlBasicDesc(block.remote, block.length, remote.devId),
                                     static_cast<RemoteSide *>(remote.region)->md));
    }
}

SouthBoundRequest::~SouthBoundRequest() {
    LockGuard lock(engine_.mutex());
    if (inProgress() && !stop())
        NIXL_WARN << "plugin " << engine_.name() << ": a request was destroyed while it runs";
    dropHandle();
    linkUsers(false);
}

Progress
SouthBoundRequest::post(const std::optional<std::string> &notification) {
    LockGuard lock(engine_.mutex());
    if (!closed_.empty())
        return progress_ = {NIXL_ERR_NOT_FOUND, closed_, {}};
    if (notification && !engine_.capabilities().notifications)
        return progress_ = {NIXL_ERR_BACKEND, concat("plugin ", engine_.name(), " has no notifications"), {}};
    args_.hasNotif = notification.has_value();
    args_.notifMsg = notification.value_or("");
    if (handle_ == nullptr) {
        if (Status status = prepareHandle(); !status.ok())
            return progress_ = Progress::failed(status);
    }
    progress_ = engine_.callForProgress("postXfer", [this](nixlBackendEngine &foreign) {
        return foreign.postXfer(operation_, local_, remote_, remoteAgent_, handle_, &args_);
    });
    if (inProgress())
        engine_.activate(*this);
    return progress_;
}

Progress
SouthBoundRequest::check() {
    LockGuard lock(engine_.mutex());
    if (inProgress())
        poll();
    return progress_;
}

bool
SouthBoundRequest::cancel(std::chrono::milliseconds patience) {
    LockGuard lock(engine_.mutex());
    if (!inProgress())
        return true;
    poll();
    return !inProgress() || stop() || engine_.waitForEnd(*this, patience);
}

void
SouthBoundRequest::poll() {
    engine_.assertLocked();
    Progress progress = engine_.callForProgress(
        "checkXfer", [this](nixlBackendEngine &foreign) { return foreign.checkXfer(handle_); });
    if (progress.code != NIXL_IN_PROG)
        end(std::move(progress));
}

void
SouthBoundRequest::close(const std::string &reason) {
    closed_ = reason;
}

bool
SouthBoundRequest::stop() {
    engine_.assertLocked();
    const Status status = engine_.call(
        "releaseReqH", [this](nixlBackendEngine &foreign) { return foreign.releaseReqH(handle_); });
    if (!status.ok())
        return false;
    handle_ = nullptr;
    end({NIXL_ERR_CANCELED, "cancelled", {}});
    return true;
}

void
SouthBoundRequest::dropHandle() {
    engine_.assertLocked();
    if (handle_ == nullptr)
        return;
    const Status status = engine_.call(
        "releaseReqH", [this](nixlBackendEngine &foreign) { return foreign.releaseReqH(handle_); });
    // Nobody can be told here, and the plugin cannot be asked again.
    if (!status.ok())
        NIXL_WARN << status.message() << "; a request leaks";
    handle_ = nullptr;
}

Result<std::pair<std::chrono::microseconds, std::chrono::microseconds>>
SouthBoundRequest::estimate() {
    std::pair<std::chrono::microseconds, std::chrono::microseconds> answer{};
    nixl_cost_t method{};
    LockGuard lock(engine_.mutex());
    NIXL_RETURN_IF_ERROR(engine_.call("estimateXferCost", [&](nixlBackendEngine &foreign) {
        return foreign.estimateXferCost(operation_, local_, remote_, remoteAgent_, handle_, answer.first,
                                        answer.second, method);
    }));
    return answer;
}

Status
SouthBoundRequest::prepareHandle() {
    engine_.assertLocked();
    for (const LocalRegionRef &ref : spec_.localRegions)
        if (static_cast<LocalSide *>(ref.region)->closed)
            return Status::error(NIXL_ERR_NOT_FOUND, "the memory was deregistered");
    for (const RemoteRegionRef &ref : spec_.remoteRegions)
        if (!static_cast<RemoteSide *>(ref.region)->loaded)
            return Status::error(NIXL_ERR_NOT_FOUND, "the memory of agent ", remoteAgent_,
                                 " is not known any more");
    nixlBackendReqH *handle = nullptr;
    NIXL_RETURN_IF_ERROR(engine_.call("prepXfer", [&](nixlBackendEngine &foreign) {
        return foreign.prepXfer(operation_, local_, remote_, remoteAgent_, handle, &args_);
    }));
    handle_ = handle;
    return {};
}

void
SouthBoundRequest::end(Progress progress) {
    engine_.assertLocked();
    progress_ = std::move(progress);
    progress_.ended = std::chrono::steady_clock::now();
    engine_.deactivate(*this);
}

void
SouthBoundRequest::linkUsers(bool add) {
    const auto link = [&](std::unordered_set<SouthBoundRequest *> &users) {
        if (add)
            users.insert(this);
        else
            users.erase(this);
    };
    for (const LocalRegionRef &ref : spec_.localRegions)
        link(static_cast<LocalSide *>(ref.region)->users);
    for (const RemoteRegionRef &ref : spec_.remoteRegions)
        link(static_cast<RemoteSide *>(ref.region)->users);
}

} // namespace nixl::south_bound
