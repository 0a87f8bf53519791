#include "engines/local/endpoint.h"

#include <utility>

namespace nixl::local {

namespace {

/// What a message costs beyond its bytes.
constexpr std::uint64_t kMessageOverhead = 64;

} // namespace

bool
Inbox::push(const std::string &agent, std::string &&message) {
    const LockGuard lock(mutex_);
    if (bytes_ >= limit_) {
        refused_ = true;
        return false;
    }
    bytes_ += message.size() + agent.size() + kMessageOverhead;
    messages_.push_back({agent, std::move(message)});
    return true;
}

bool
Inbox::take(std::vector<Notification> &out) {
    std::vector<Notification> messages;
    bool refused;
    {
        const LockGuard lock(mutex_);
        messages.swap(messages_);
        bytes_ = 0;
        refused = std::exchange(refused_, false);
    }
    if (out.empty())
        out = std::move(messages);
    else
        out.insert(out.end(), std::make_move_iterator(messages.begin()),
                   std::make_move_iterator(messages.end()));
    return refused;
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
    }
    const LockGuard lock(watching_);
    ended_ = true;
    for (const auto &[who, told] : watchers_)
        told();
    watchers_.clear();
}

} // namespace nixl::local
