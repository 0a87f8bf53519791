// Connections of peers that the program has forgotten.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engines/ucx/connection.h"
#include "util/mutex.h"

namespace nixl::ucx {

/// A peer that is forgotten here may go on using memory of this agent. UCX joins the endpoints of two workers
/// that connect with each other, and drops requests for an answer that come over one whose other half was
/// closed, without a word to either side: packed blocks of that peer would wait for ever. So such a
/// connection stays open until it breaks, with the peer's end at the latest, or is used again. Any thread.
class KeptConnections {
public:
    /// Keeps a connection if it stands, and closes it otherwise. REQUIRES: nothing is under way on it but
    /// messages.
    void keep(std::shared_ptr<Connection> connection);

    /// One that was kept, stands, and owes nothing; nullptr if there is none.
    std::shared_ptr<Connection> take(const ProgressWorker &worker, const std::string &peerName,
                                     const std::string &address);

    /// Whether there is one of the same worker to the same peer.
    bool has(const Connection &like) const;

    /// Closes those that broke, and asks what peers have taken in of the letters of others. To be called now
    /// and then.
    void look();

    /// Closes all, as Connection::close().
    void close(bool force);

    /// Number of those that are kept.
    std::size_t size() const;

private:
    std::vector<std::shared_ptr<Connection>> takeBroken() NIXL_REQUIRES(mutex_);

    mutable Mutex mutex_;
    std::vector<std::shared_ptr<Connection>> connections_ NIXL_GUARDED_BY(mutex_);
};

} // namespace nixl::ucx
