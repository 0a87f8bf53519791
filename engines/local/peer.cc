#include "engines/local/peer.h"

#include "engines/local/handshake.h"
#include "engines/local/identity.h"

namespace nixl::local {

LocalPeer::LocalPeer(HostProcess &process, std::shared_ptr<Endpoint> self, const Settings &settings,
                     std::string name, const ConnectionInfo &info)
    : process_(process), self_(std::move(self)), settings_(settings), name_(std::move(name)), info_(info) {}

LocalPeer::~LocalPeer() {
    if (guard_.inherited()) {
        (void)lane_.release(); // the parent's connection
        return;
    }
    if (lane_ && lane_->channel)
        lane_->channel->close(settings_.connectTimeout);
    if (lane_ && lane_->endpoint)
        lane_->endpoint->forget(this);
}

Result<Lane>
LocalPeer::lane() {
    const LockGuard lock(mutex_);
    if (!lane_) {
        auto lane = connect();
        if (!lane.ok())
            return lane.status().withContext(concat("agent '", name_, "'"));
        lane_ = std::make_unique<Lane>(std::move(lane).value());
    }
    NIXL_RETURN_IF_ERROR(lane_->alive());
    return *lane_;
}

void
LocalPeer::tell(PeerChange change, const std::string &why) const {
    self_->tellPeerChange(*this, change, why);
}

Result<Lane>
LocalPeer::connect() {
    if (auto endpoint = process_.find(info_.incarnation)) {
        if (endpoint->agent != name_)
            return Status::error(NIXL_ERR_MISMATCH, "its incarnation belongs to agent '", endpoint->agent,
                                 "'");
        endpoint->whenEnded(this,
                            [this] { tell(PeerChange::kLost, concat("agent '", name_, "' has ended")); });
        return Lane{std::move(endpoint), nullptr};
    }
    const auto deadline = std::chrono::steady_clock::now() + settings_.connectTimeout;
    auto peer = meetPeer(*self_, ownHints(), process_.life().fd(), info_, name_, deadline);
    if (!peer.ok())
        return peer.status();
    const auto undelivered = [this](std::string message, const std::string &why) {
        self_->tellUndelivered(name_, std::move(message), why);
    };
    auto channel = PeerChannel::create(
        process_.loop(), process_.heartbeat(), std::move(peer).value(), name_,
        {[this](PeerChange change, const std::string &why) { tell(change, why); }, undelivered});
    if (!channel.ok())
        return channel.status();
    return Lane{nullptr, std::move(channel).value()};
}

} // namespace nixl::local
