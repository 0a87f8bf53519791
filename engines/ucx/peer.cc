#include "engines/ucx/peer.h"

namespace nixl::ucx {

UcxPeer::UcxPeer(const std::vector<std::unique_ptr<ProgressWorker>> &workers, KeptConnections &kept,
                 Liveness *liveness, const std::string &name, PeerSettings how, Listeners listeners)
    : kept_(kept), liveness_(liveness), listeners_(std::move(listeners)), sockets_(std::move(how.sockets)),
      errorHandling_(how.errorHandling), keys_(workers), name_(name), packer_(how.packer), packs_(how.packs),
      keep_(how.packs && !how.closeForce), closeForce_(how.closeForce) {
    connections_.reserve(workers.size());
    for (const auto &worker : workers) {
        std::string &address = how.addresses[worker->index()];
        auto connection = keep_ ? kept.take(*worker, name, address) : nullptr;
        if (!connection)
            connection =
                std::make_shared<Connection>(*worker, name, std::move(address), how.errorHandling, sockets_);
        worker->locked([&] {
            connection->tellUndelivered(listeners_.undelivered);
            if (liveness_ != nullptr)
                connection->tellLost([this](const Status &why) { setLost(why); });
        });
        connections_.push_back(std::move(connection));
    }
    if (liveness_ != nullptr)
        liveness_->watch(*this);
}

UcxPeer::~UcxPeer() {
    if (guard_.inherited())
        return; // locks, sockets and threads are the parent's
    if (liveness_ != nullptr)
        liveness_->forget(*this);
    if (const Status why = lost(); !why.ok())
        giveUp(why);
    for (auto &connection : connections_) {
        const bool keep = connection->worker().locked([&] {
            connection->tellLost(nullptr);
            return keep_ && connection->givenUp().ok();
        });
        if (keep)
            kept_.keep(std::move(connection));
        else
            connection->worker().with([&] {
                if (closeForce_)
                    connection->giveUp(Status(NIXL_ERR_CANCELED, "the peer was removed"));
                connection->close(closeForce_);
            });
    }
    if (liveness_ != nullptr)
        liveness_->wake();
}

/// Called with the lock of a worker held, so that the other connections are given up later.
void
UcxPeer::setLost(const Status &why) {
    {
        const LockGuard lock(mutex_);
        lost_ = why;
    }
    tell(PeerChange::kLost, why.message());
}

Status
UcxPeer::lost() const {
    const LockGuard lock(mutex_);
    return lost_;
}

void
UcxPeer::tell(PeerChange change, const std::string &why) const {
    if (listeners_.changed)
        listeners_.changed(this, change, why);
}

void
UcxPeer::giveUp(const Status &why) {
    for (const auto &connection : connections_)
        connection->worker().with([&] { connection->giveUp(why); });
}

} // namespace nixl::ucx
