#include "agent/transfer.h"

#include <cmath>

#include "util/concat.h"
#include "util/log.h"

using nixl::LockGuard;
using nixl::Progress;
using nixl::RequestState;
using nixl::Status;

namespace {

std::chrono::microseconds
elapsed(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
    return std::chrono::duration_cast<std::chrono::microseconds>(to - from);
}

} // namespace

nixlXferReqH::nixlXferReqH(nixl::TransferParts parts, nixl::Telemetry *telemetry)
    : parts_(std::move(parts)), telemetry_(telemetry), notification_(parts_.notification) {
    for (const auto &entry : parts_.blocks.localRegions)
        localRegions_.push_back({static_cast<nixl::LocalEntry &>(*entry).region.get(), entry->desc.devId});
    for (const auto &entry : parts_.blocks.remoteRegions) {
        nixl::RemoteRegion *region = parts_.peer ? static_cast<nixl::RemoteEntry &>(*entry).region.get()
                                                 : static_cast<nixl::LocalEntry &>(*entry).loopback.get();
        remoteRegions_.push_back({region, entry->desc.devId});
    }
    spec_ = {parts_.operation,     parts_.localMemory,  parts_.remoteMemory,
             parts_.blocks.blocks, parts_.blocks.bytes, localRegions_,
             remoteRegions_,       parts_.peerName,     parts_.link ? parts_.link->peer.get() : nullptr,
             parts_.customParam};
}

nixl::Result<std::shared_ptr<nixlXferReqH>>
nixlXferReqH::create(nixl::TransferParts parts, nixl::Telemetry *telemetry) {
    std::shared_ptr<nixlXferReqH> request(new nixlXferReqH(std::move(parts), telemetry));
    auto prepared = request->engine().impl().prepare(request->spec_);
    if (!prepared.ok())
        return prepared.status().withContext(request->engine().name());
    nixl::TransferParts &made = request->parts_;
    if (const auto path = prepared.value()->path())
        refinePlan(made.plan, made.service, *path,
                   {made.operation, made.localMemory, made.remoteMemory, made.blocks.blocks.size(),
                    made.blocks.bytes, made.notification.has_value()});
    NIXL_LOG(kDebug, "request with '", made.peerName, "': ", made.blocks.blocks.size(), " blocks by ",
             made.service.engine->name(), ", ", made.plan.path.lane, " (", made.plan.path.reason, ")");
    LockGuard lock(request->mutex_);
    request->request_ = std::move(prepared).value();
    return request;
}

Status
nixlXferReqH::checkLive() const {
    if (parts_.peer && !parts_.peer->live.load())
        return Status::error(NIXL_ERR_NOT_FOUND, "stale: the metadata of '", parts_.peerName,
                             "' that it was made with is gone");
    const auto gone = [](const std::vector<std::shared_ptr<nixl::RegionEntry>> &entries) {
        for (const auto &entry : entries) {
            if (!entry->live.load())
                return entry.get();
        }
        return static_cast<nixl::RegionEntry *>(nullptr);
    };
    if (const nixl::RegionEntry *entry = gone(parts_.blocks.localRegions))
        return Status::error(NIXL_ERR_NOT_FOUND, "stale: the registration of ",
                             nixl::describe(entry->memory, entry->desc), " of this agent has ended");
    if (const nixl::RegionEntry *entry = gone(parts_.blocks.remoteRegions))
        return Status::error(NIXL_ERR_NOT_FOUND, "stale: the registration of ",
                             nixl::describe(entry->memory, entry->desc), " of '", parts_.peerName,
                             "' has ended");
    return {};
}

void
nixlXferReqH::countRun(int by) {
    for (const auto &entry : parts_.blocks.localRegions)
        entry->running.fetch_add(by);
    for (const auto &entry : parts_.blocks.remoteRegions)
        entry->running.fetch_add(by);
}

bool
nixlXferReqH::uses(const nixl::RegionEntry &entry) const {
    const auto in = [&](const std::vector<std::shared_ptr<nixl::RegionEntry>> &entries) {
        for (const auto &candidate : entries) {
            if (candidate.get() == &entry)
                return true;
        }
        return false;
    };
    return in(parts_.blocks.localRegions) || in(parts_.blocks.remoteRegions);
}

RequestState
nixlXferReqH::post(const std::optional<std::optional<std::string>> &change) {
    const auto refuse = [](const Status &status) { return RequestState{status.code(), status.message()}; };
    LockGuard lock(mutex_);
    if (released_)
        return refuse(Status::error(NIXL_ERR_INVALID_PARAM, "the request was released"));
    if (const Status live = checkLive(); !live.ok() && state_.code != NIXL_IN_PROG)
        return refuse(live);
    if (state_.code == NIXL_IN_PROG) {
        RequestState before = poll();
        if (before.code == NIXL_IN_PROG)
            return refuse(Status::error(NIXL_ERR_REPOST_ACTIVE, "the previous post is still in progress"));
        if (before.code == NIXL_ERR_REMOTE_DISCONNECT)
            return before;
        if (const Status live = checkLive(); !live.ok())
            return refuse(live);
    }
    const std::optional<std::string> &wanted = change ? *change : notification_;
    if (wanted && !engine().capabilities().notifications)
        return refuse(Status::error(NIXL_ERR_BACKEND, engine().name(), " has no notifications"));
    notification_ = wanted;
    started_ = Clock::now();
    times_.startTime = std::chrono::duration_cast<std::chrono::microseconds>(started_.time_since_epoch());
    // First count, then look: a deregistration closes first, then counts, so that one of the two sees the
    // other.
    countRun(1);
    if (const Status live = checkLive(); !live.ok()) {
        countRun(-1);
        return refuse(live);
    }
    state_ = {};
    Progress progress = request_->post(notification_);
    times_.postDuration = elapsed(started_, Clock::now());
    if (progress.code != NIXL_IN_PROG)
        end(std::move(progress));
    return tell();
}

RequestState
nixlXferReqH::status() {
    std::shared_ptr<nixl::EngineWork> work;
    {
        LockGuard lock(mutex_);
        RequestState state = state_.code == NIXL_IN_PROG ? poll() : tell();
        if (state.code == NIXL_IN_PROG)
            work = request_->work();
        if (!work)
            return state;
    }
    work->help(); // without the lock: others can cancel and release meanwhile
    LockGuard lock(mutex_);
    return state_.code == NIXL_IN_PROG ? poll() : tell();
}

nixlXferReqH::Look
nixlXferReqH::look() {
    LockGuard lock(mutex_);
    if (state_.code == NIXL_IN_PROG) {
        (void)poll();
        state_.news = true;
    }
    if (state_.code != NIXL_IN_PROG)
        return {true};
    return {false, request_->work()};
}

RequestState
nixlXferReqH::cancel() {
    LockGuard lock(mutex_);
    if (state_.code == NIXL_IN_PROG && poll().code == NIXL_IN_PROG) {
        if (!request_->cancel(std::chrono::milliseconds(0)))
            return {};
        end(request_->check());
        state_.news = false; // the caller knows
    }
    return {NIXL_SUCCESS, {}};
}

/// The state, which is no news from now on.
RequestState
nixlXferReqH::tell() {
    RequestState told = state_;
    state_.news = state_.code == NIXL_IN_PROG;
    return told;
}

/// Asks the engine. A run whose peer was invalidated is cancelled: its result would mean nothing to anybody.
RequestState
nixlXferReqH::poll() {
    Progress progress = request_->check();
    const bool forgotten = parts_.peer && !parts_.peer->live.load();
    if (progress.code == NIXL_IN_PROG && forgotten && request_->cancel(std::chrono::milliseconds(0)))
        progress = request_->check();
    if (progress.code == NIXL_ERR_CANCELED && forgotten)
        progress = Progress::failed(checkLive());
    if (progress.code != NIXL_IN_PROG)
        end(std::move(progress));
    return tell();
}

/// Takes in a terminal state of the engine.
void
nixlXferReqH::end(Progress progress) {
    countRun(-1);
    times_.xferDuration = elapsed(started_, progress.ended.value_or(Clock::now()));
    times_.totalBytes = static_cast<std::size_t>(parts_.blocks.bytes);
    times_.descCount = parts_.blocks.blocks.size();
    state_ = {progress.code, std::move(progress.message)};
    if (!telemetry_)
        return;
    if (state_.code == NIXL_SUCCESS)
        telemetry_->recordTransfer(parts_.operation, parts_.blocks.bytes, times_.postDuration,
                                   times_.xferDuration);
    telemetry_->recordEngineEvents(engine().impl().takeTelemetry());
}

bool
nixlXferReqH::release(std::chrono::milliseconds patience) {
    LockGuard lock(mutex_);
    if (state_.code == NIXL_IN_PROG && poll().code == NIXL_IN_PROG) {
        if (!request_->cancel(patience))
            return false;
        end(request_->check());
    }
    released_ = true;
    return true;
}

Status
nixlXferReqH::quiesce(const nixl::RegionEntry &entry, std::chrono::milliseconds patience) {
    if (!uses(entry))
        return {};
    LockGuard lock(mutex_);
    if (state_.code != NIXL_IN_PROG || poll().code != NIXL_IN_PROG)
        return {};
    if (!request_->cancel(patience))
        return Status::error(NIXL_ERR_BACKEND, "a transfer with '", parts_.peerName,
                             "' that uses it does not end");
    Progress progress = request_->check();
    if (progress.code == NIXL_ERR_CANCELED)
        progress.message =
            nixl::concat("cancelled: ", nixl::describe(entry.memory, entry.desc), " was deregistered");
    end(std::move(progress));
    return {};
}

nixl::Result<std::pair<std::chrono::microseconds, std::chrono::microseconds>>
nixlXferReqH::estimate() const {
    return engine().impl().estimate(spec_);
}

nixl_xfer_telem_t
nixlXferReqH::times() const {
    LockGuard lock(mutex_);
    return times_;
}

nixlPathExplanation
nixlXferReqH::explanation() const {
    const nixlPathOption way = parts_.service.option(parts_.plan.path.lane, parts_.plan.path.reason);
    return {way.backend,
            way.path,
            way.reason,
            parts_.blocks.blocks.size(),
            static_cast<std::size_t>(parts_.blocks.bytes),
            parts_.plan.options};
}
