#include "engines/ucx/kept_connections.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace nixl::ucx {

namespace {

void
closeAll(const std::vector<std::shared_ptr<Connection>> &connections, bool force) {
    for (const auto &connection : connections)
        connection->worker().with([&] { connection->close(force); });
}

} // namespace

void
KeptConnections::keep(std::shared_ptr<Connection> connection) {
    std::vector<std::shared_ptr<Connection>> broken;
    {
        const LockGuard lock(mutex_);
        connections_.push_back(std::move(connection));
        broken = takeBroken();
    }
    closeAll(broken, true);
}

std::vector<std::shared_ptr<Connection>>
KeptConnections::takeBroken() {
    const auto broken = std::stable_partition(connections_.begin(), connections_.end(),
                                              [](const auto &connection) { return connection->stands(); });
    std::vector<std::shared_ptr<Connection>> taken(std::make_move_iterator(broken),
                                                   std::make_move_iterator(connections_.end()));
    connections_.erase(broken, connections_.end());
    return taken;
}

/// One whose peer still owes answers is not given back: they may never come, and who loads a peer again wants
/// a connection that works.
std::shared_ptr<Connection>
KeptConnections::take(const ProgressWorker &worker, const std::string &peerName, const std::string &address) {
    std::vector<std::shared_ptr<Connection>> useless;
    std::shared_ptr<Connection> taken;
    {
        const LockGuard lock(mutex_);
        useless = takeBroken();
        const auto found =
            std::find_if(connections_.begin(), connections_.end(), [&](const auto &connection) {
                return &connection->worker() == &worker && connection->peerName() == peerName &&
                       connection->address() == address;
            });
        if (found != connections_.end()) {
            taken = std::move(*found);
            connections_.erase(found);
        }
    }
    const auto clean = [&] {
        return taken->worker().locked([&] { return taken->packedUnderWay == 0 && taken->givenUp().ok(); });
    };
    if (taken && !clean())
        useless.push_back(std::move(taken));
    closeAll(useless, true);
    return taken;
}

bool
KeptConnections::has(const Connection &like) const {
    const LockGuard lock(mutex_);
    return std::any_of(connections_.begin(), connections_.end(), [&](const auto &connection) {
        return &connection->worker() == &like.worker() && connection->peerName() == like.peerName() &&
               connection->address() == like.address();
    });
}

void
KeptConnections::look() {
    std::vector<std::shared_ptr<Connection>> broken;
    std::vector<std::shared_ptr<Connection>> kept;
    {
        const LockGuard lock(mutex_);
        if (connections_.empty())
            return;
        broken = takeBroken();
        kept = connections_;
    }
    closeAll(broken, true);
    for (const auto &connection : kept)
        connection->worker().with([&] { connection->askForLetters(); });
}

void
KeptConnections::close(bool force) {
    std::vector<std::shared_ptr<Connection>> all;
    {
        const LockGuard lock(mutex_);
        all.swap(connections_);
    }
    closeAll(all, force);
}

std::size_t
KeptConnections::size() const {
    const LockGuard lock(mutex_);
    return connections_.size();
}

} // namespace nixl::ucx
