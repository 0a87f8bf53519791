#include "agent/peer_events.h"

#include <chrono>
#include <iterator>
#include <utility>

namespace nixl {

void
PeerEvents::watch(const Peer &peer, PeerLifePtr life) {
    const LockGuard lock(mutex_);
    watches_[&peer] = {std::move(life), false};
}

void
PeerEvents::forget(const Peer &peer) {
    const LockGuard lock(mutex_);
    watches_.erase(&peer);
}

void
PeerEvents::report(const Peer *peer, PeerChange change, const std::string &why) {
    {
        const LockGuard lock(mutex_);
        const auto found = watches_.find(peer);
        if (found == watches_.end() || !addChange(found->second, change, why))
            return;
    }
    signal();
}

/// A peer with several engines stalls with the first that says so, and is back with the last.
bool
PeerEvents::addChange(Watch &watch, PeerChange change, const std::string &why) {
    PeerLife &life = *watch.life;
    if (life.over_)
        return false;
    if (change == PeerChange::kLost)
        return endAsLost(life, why);
    const bool stalled = change == PeerChange::kStalled;
    if (std::exchange(watch.stalled, stalled) == stalled)
        return false;
    const bool first = stalled ? life.stalled_++ == 0 : --life.stalled_ == 0;
    if (first)
        add(life.name(), stalled ? Kind::kStalled : Kind::kResumed, why);
    return first;
}

bool
PeerEvents::endAsLost(PeerLife &life, const std::string &why) {
    if (std::exchange(life.over_, true))
        return false;
    life.why_ = why;
    life.lost_.store(true, std::memory_order_release);
    add(life.name(), Kind::kLost, why);
    return true;
}

void
PeerEvents::joined(const PeerLife &life) {
    tell(life, Kind::kJoined, "its metadata was loaded");
}

void
PeerEvents::updated(const PeerLife &life, std::string why) {
    tell(life, Kind::kUpdated, std::move(why));
}

void
PeerEvents::lost(PeerLife &life, const std::string &why) {
    {
        const LockGuard lock(mutex_);
        if (!endAsLost(life, why))
            return;
    }
    signal();
}

void
PeerEvents::left(PeerLife &life, const std::string &why) {
    {
        const LockGuard lock(mutex_);
        if (std::exchange(life.over_, true))
            return;
        add(life.name(), Kind::kLeft, why);
    }
    signal();
}

void
PeerEvents::undelivered(const std::string &peer, std::string message, const std::string &why) {
    {
        const LockGuard lock(mutex_);
        add(peer, Kind::kUndelivered, why, std::move(message));
    }
    signal();
}

/// Of a life that goes on.
void
PeerEvents::tell(const PeerLife &life, Kind kind, std::string why) {
    {
        const LockGuard lock(mutex_);
        if (life.over_)
            return;
        add(life.name(), kind, std::move(why));
    }
    signal();
}

void
PeerEvents::add(const std::string &peer, Kind kind, std::string why, std::string message) {
    bytes_ += message.size();
    while (!events_.empty() && (events_.size() == limit_ || bytes_ > mostBytes_)) {
        bytes_ -= events_.front().message.size();
        events_.pop_front();
        ++dropped_;
    }
    events_.push_back({peer, kind, std::move(why), std::chrono::system_clock::now(), 0, std::move(message)});
}

void
PeerEvents::signal() const {
    if (signal_)
        signal_();
}

void
PeerEvents::take(std::vector<nixlPeerEvent> &out) {
    const LockGuard lock(mutex_);
    if (!events_.empty())
        events_.front().dropped = std::exchange(dropped_, 0);
    out.insert(out.end(), std::make_move_iterator(events_.begin()), std::make_move_iterator(events_.end()));
    events_.clear();
    bytes_ = 0;
}

} // namespace nixl
