#include "engines/ucx/peer.h"

namespace nixl::ucx {

UcxPeer::UcxPeer(const std::vector<std::unique_ptr<ProgressWorker>> &workers, KeptConnections &kept,
                 const std::string &name, PeerSettings how, const Changed &changed)
    : kept_(kept), keys_(workers), name_(name), packer_(how.packer), packs_(how.packs),
      keep_(how.packs && !how.closeForce), closeForce_(how.closeForce) {
    connections_.reserve(workers.size());
    for (const auto &worker : workers) {
        std::string &address = how.addresses[worker->index()];
        auto connection = keep_ ? kept.take(*worker, name, address) : nullptr;
        if (!connection)
            connection = std::make_shared<Connection>(*worker, name, std::move(address), how.errorHandling);
        if (changed)
            worker->locked([&] {
                connection->tellLost(
                    [this, changed](const std::string &why) { changed(this, PeerChange::kLost, why); });
            });
        connections_.push_back(std::move(connection));
    }
}

UcxPeer::~UcxPeer() {
    if (guard_.inherited())
        return; // locks and sockets are the parent's
    for (auto &connection : connections_) {
        connection->worker().locked([&] { connection->tellLost(nullptr); });
        if (keep_)
            kept_.keep(std::move(connection));
        else
            connection->worker().with([&] { connection->close(closeForce_); });
    }
}

} // namespace nixl::ucx
