// Which connection of a worker a peer's answer means.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "engines/ucx/api.h"

namespace nixl::ucx {

class Connection;

/// Connections that are open or have letters, by their links. Everything REQUIRES the worker's lock.
class LinkTable {
public:
    void
    enter(std::uint64_t link, Connection &connection) {
        connections_[link] = &connection;
    }

    void
    leave(std::uint64_t link) {
        connections_.erase(link);
    }

    template<typename Body>
    void
    forEach(Body body) {
        const auto connections = connections_; // a body may close its connection
        for (const auto &[link, connection] : connections)
            body(*connection);
    }

    /// The handler of kPong. What names no open connection is dropped.
    static ucs_status_t onPong(void *table, const void *header, std::size_t headerLength, void *data,
                               std::size_t length, const ucp_am_recv_param_t *param);

private:
    std::unordered_map<std::uint64_t, Connection *> connections_;
};

} // namespace nixl::ucx
