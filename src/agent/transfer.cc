#include "agent/transfer.h"

#include <algorithm>

#include "util/concat.h"
#include "util/log.h"

using nixl::after;
using nixl::Life;
using nixl::LifeEvent;
using nixl::LockGuard;
using nixl::Progress;
using nixl::quiet;
using nixl::RequestState;
using nixl::Status;

namespace {

/// How long one call into an engine waits for a cancelled run.
constexpr std::chrono::milliseconds kSlice{5};

std::chrono::microseconds
elapsed(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
    return std::chrono::duration_cast<std::chrono::microseconds>(to - from);
}

} // namespace

nixlXferReqH::nixlXferReqH(nixl::TransferParts parts, const nixl::TransferLimits &limits,
                           nixl::Telemetry *telemetry)
    : parts_(std::move(parts)), limits_(limits), telemetry_(telemetry), notification_(parts_.notification) {
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
nixlXferReqH::create(nixl::TransferParts parts, const nixl::TransferLimits &limits,
                     nixl::Telemetry *telemetry) {
    std::shared_ptr<nixlXferReqH> request(new nixlXferReqH(std::move(parts), limits, telemetry));
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
    if (parts_.peer)
        NIXL_RETURN_IF_ERROR(parts_.peer->check("it"));
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
nixlXferReqH::post(const std::optional<std::optional<std::string>> &change,
                   std::optional<std::chrono::milliseconds> timeout) {
    const auto refuse = [](const Status &status) {
        return RequestState{status.code(), status.message(), true,
                            status.code() == NIXL_ERR_REMOTE_DISCONNECT};
    };
    LockGuard lock(mutex_);
    if (life_ == Life::kReleased)
        return refuse(Status::error(NIXL_ERR_INVALID_PARAM, "the request was released"));
    if (const Status live = checkLive(); !live.ok() && quiet(life_))
        return refuse(live);
    if (!quiet(life_)) {
        RequestState before = poll();
        if (before.code == NIXL_IN_PROG)
            return refuse(
                Status::error(NIXL_ERR_REPOST_ACTIVE, life_ == Life::kCancelling
                                                          ? "the previous post is being cancelled"
                                                          : "the previous post is still in progress"));
        if (before.code == NIXL_ERR_REMOTE_DISCONNECT && before.peerGone)
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
    timeout_ = timeout.value_or(limits_.run);
    deadline_ = timeout_.count() > 0 ? std::optional(started_ + timeout_) : std::nullopt;
    life_ = *after(life_, LifeEvent::kPost);
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
        RequestState state = quiet(life_) ? tell() : poll();
        if (life_ == Life::kInProgress)
            work = request_->work();
        if (!work)
            return state;
    }
    work->help(); // without the lock: others can cancel and release meanwhile
    LockGuard lock(mutex_);
    return quiet(life_) ? tell() : poll();
}

nixlXferReqH::Look
nixlXferReqH::look() {
    // How often a run that was cut off and did not end is looked at.
    constexpr std::chrono::milliseconds kAgain{10};
    LockGuard lock(mutex_);
    if (!quiet(life_)) {
        (void)poll();
        state_.news = true;
    }
    if (quiet(life_))
        return {true};
    Look look{false, life_ == Life::kInProgress ? request_->work() : nullptr, deadline_};
    if (life_ == Life::kCancelling)
        look.next = std::max(*deadline_, Clock::now() + kAgain);
    return look;
}

/// The state, which is no news from now on.
RequestState
nixlXferReqH::tell() {
    RequestState told = state_;
    state_.news = state_.code == NIXL_IN_PROG;
    return told;
}

/// Asks the engine. A run past its deadline is cancelled, and so is one whose peer is lost, or was
/// invalidated: its result would mean nothing to anybody. REQUIRES: not quiet.
RequestState
nixlXferReqH::poll() {
    Progress progress = request_->check();
    if (progress.code == NIXL_IN_PROG && life_ == Life::kInProgress) {
        if (const Status run = parts_.peer ? parts_.peer->checkRun() : Status(); !run.ok())
            beginCancel(run);
        else if (deadline_ && Clock::now() >= *deadline_)
            beginCancel(Status::error(NIXL_ERR_CANCELED, "not done after ", timeout_.count(),
                                      " ms, the time that it was given: '", parts_.peerName,
                                      "' may be stopped, gone or slow"));
    }
    if (progress.code == NIXL_IN_PROG && life_ == Life::kCancelling)
        progress = pursueCancel();
    if (progress.code != NIXL_IN_PROG)
        end(std::move(progress));
    return tell();
}

/// REQUIRES: not quiet. `cause`: what the run ends with, if nothing else ends it.
void
nixlXferReqH::beginCancel(Status cause) {
    if (life_ == Life::kInProgress)
        cause_ = std::move(cause);
    if (life_ == Life::kInProgress || !deadline_)
        deadline_ = Clock::now() + limits_.cutOff;
    life_ = *after(life_, LifeEvent::kCancel);
}

Progress
nixlXferReqH::pursueCancel() {
    if (!request_->cancel(std::chrono::milliseconds(0)) && Clock::now() >= *deadline_)
        force();
    return request_->check();
}

/// Again at every look: what is cut off may have been connected anew by another request meanwhile.
void
nixlXferReqH::force() {
    request_->cutOff();
    (void)request_->cancel(std::chrono::milliseconds(0));
}

/// Takes in a terminal state of the engine.
void
nixlXferReqH::end(Progress progress) {
    countRun(-1);
    times_.xferDuration = elapsed(started_, progress.ended.value_or(Clock::now()));
    times_.totalBytes = static_cast<std::size_t>(parts_.blocks.bytes);
    times_.descCount = parts_.blocks.blocks.size();
    if (life_ == Life::kCancelling && (progress.code == NIXL_ERR_CANCELED || progress.peerLives))
        progress = Progress::failed(cause_);
    life_ = *after(life_, progress.code == NIXL_SUCCESS ? LifeEvent::kSuccess : LifeEvent::kFailure);
    const bool peerGone = progress.code == NIXL_ERR_REMOTE_DISCONNECT && !progress.peerLives;
    state_ = {progress.code, std::move(progress.message), true, peerGone};
    if (!telemetry_)
        return;
    if (state_.code == NIXL_SUCCESS)
        telemetry_->recordTransfer(parts_.operation, parts_.blocks.bytes, times_.postDuration,
                                   times_.xferDuration);
    telemetry_->recordEngineEvents(engine().impl().takeTelemetry());
}

bool
nixlXferReqH::cancel(std::string cause) {
    LockGuard lock(mutex_);
    if (quiet(life_))
        return true;
    beginCancel(Status(NIXL_ERR_CANCELED, std::move(cause)));
    poll();
    return quiet(life_);
}

bool
nixlXferReqH::isQuiet() const {
    LockGuard lock(mutex_);
    return quiet(life_);
}

void
nixlXferReqH::cutOff() {
    LockGuard lock(mutex_);
    if (life_ == Life::kCancelling)
        force();
}

bool
nixlXferReqH::release(std::chrono::milliseconds patience) {
    const auto limit = Clock::now() + patience;
    if (!cancel("cancelled: the request was released")) {
        LockGuard lock(mutex_);
        while (!quiet(life_)) {
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now());
            // In slices, for the time to cut it off.
            if (left.count() <= 0)
                return false;
            (void)request_->cancel(std::min(left, kSlice));
            poll();
        }
    }
    LockGuard lock(mutex_);
    const auto released = after(life_, LifeEvent::kRelease);
    if (released)
        life_ = *released;
    return released.has_value() || life_ == Life::kReleased;
}

Status
nixlXferReqH::quiesce(const nixl::RegionEntry &entry, std::chrono::milliseconds patience) {
    if (!uses(entry))
        return {};
    const auto limit = Clock::now() + patience;
    LockGuard lock(mutex_);
    if (quiet(life_))
        return {};
    beginCancel(Status::error(NIXL_ERR_CANCELED, "cancelled: ", nixl::describe(entry.memory, entry.desc),
                              " was deregistered"));
    for (poll(); !quiet(life_); poll()) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now());
        if (left.count() <= 0)
            return Status::error(NIXL_ERR_BACKEND, "a transfer with '", parts_.peerName,
                                 "' that uses it does not end");
        (void)request_->cancel(std::min(left, kSlice));
    }
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
