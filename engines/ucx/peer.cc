#include "engines/ucx/peer.h"

namespace nixl::ucx {

UcxPeer::UcxPeer(const std::vector<std::unique_ptr<ProgressWorker>> &workers, const std::string &name,
                 PeerSettings how)
    : keys_(workers), name_(name), packer_(how.packer), packs_(how.packs), closeForce_(how.closeForce) {
    connections_.reserve(workers.size());
    for (const auto &worker : workers)
        connections_.push_back(std::make_shared<Connection>(
            *worker, name, std::move(how.addresses[worker->index()]), how.errorHandling));
}

UcxPeer::~UcxPeer() {
    if (guard_.inherited())
        return; // locks and sockets are the parent's
    for (const auto &connection : connections_)
        connection->worker().with([&] { connection->close(closeForce_); });
}

} // namespace nixl::ucx
