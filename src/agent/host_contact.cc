#include "agent/host_contact.h"

#include <algorithm>

namespace nixl {

namespace {

/// Whether all of them, connecting now, say that the peer is gone.
bool
agreeThatItIsGone(const std::vector<HostContact::Other> &others) {
    return std::all_of(others.begin(), others.end(), [](const HostContact::Other &other) {
        return other.engine->impl().connect(*other.peer).code() == NIXL_ERR_REMOTE_DISCONNECT;
    });
}

} // namespace

std::optional<Result<HostLane>>
HostContact::known(Engine &engine, Peer &peer) const {
    {
        ReadLock lock(mutex_);
        if (state_ == State::kRefused)
            return refusal_;
        if (state_ == State::kUnknown)
            return std::nullopt;
    }
    return engine.meet(peer);
}

Result<HostLane>
HostContact::decide(Engine &engine, Peer &peer, const std::vector<Other> &others) {
    WriteLock lock(mutex_);
    if (state_ == State::kRefused)
        return refusal_;
    auto lane = engine.meet(peer);
    if (lane.ok()) {
        state_ = State::kMet;
        return lane;
    }
    if (state_ == State::kMet || others.empty())
        return lane;
    if (lane.status().code() == NIXL_ERR_REMOTE_DISCONNECT && agreeThatItIsGone(others))
        return lane;
    state_ = State::kRefused;
    refusal_ = Status(NIXL_ERR_BACKEND, lane.status().message());
    return refusal_;
}

} // namespace nixl
