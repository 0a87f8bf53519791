#include "engines/local/endpoint.h"

#include <utility>

namespace nixl::local {

Status
Endpoint::ended() const {
    return Status::error(NIXL_ERR_REMOTE_DISCONNECT, "agent '", agent, "' has ended");
}

void
Endpoint::signalActivity() {
    const LockGuard lock(mutex_);
    if (onActivity_)
        onActivity_();
}

void
Endpoint::tellPeerChange(const Peer &peer, PeerChange change, const std::string &why) {
    const LockGuard lock(mutex_);
    if (onPeerChange_)
        onPeerChange_(&peer, change, why);
}

void
Endpoint::tellUndelivered(const std::string &peerName, std::string message, const std::string &why) {
    const LockGuard lock(mutex_);
    if (onUndelivered_)
        onUndelivered_(peerName, std::move(message), why);
}

void
Endpoint::whenEnded(const void *who, std::function<void()> told) {
    const LockGuard lock(watching_);
    if (ended_)
        told();
    else
        watchers_[who] = std::move(told);
}

void
Endpoint::forget(const void *who) {
    const LockGuard lock(watching_);
    watchers_.erase(who);
}

void
Endpoint::end() {
    {
        const LockGuard lock(mutex_);
        onActivity_ = nullptr;
        onPeerChange_ = nullptr;
        onUndelivered_ = nullptr;
    }
    anteroom.close(ended());
    const LockGuard lock(watching_);
    ended_ = true;
    for (const auto &[who, told] : watchers_)
        told();
    watchers_.clear();
}

} // namespace nixl::local
