// How a transfer reaches the other end.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "engines/local/endpoint.h"
#include "engines/local/peer_channel.h"
#include "util/status.h"

namespace nixl::local {

/// Either an engine of this process or a channel to another one. Constant once made; exactly one is set.
struct Lane {
    std::shared_ptr<Endpoint> endpoint;
    std::shared_ptr<PeerChannel> channel;

    TableView
    table() const {
        return channel ? channel->table() : endpoint->table.view();
    }

    /// As copyPieces takes it.
    pid_t
    pid() const {
        return channel ? channel->pid() : 0;
    }

    /// For messages.
    std::string
    description() const {
        return channel ? channel->description() : concat("agent '", endpoint->agent, "'");
    }

    /// NIXL_ERR_REMOTE_DISCONNECT if the other end is gone.
    Status
    alive() const {
        if (channel && !channel->alive())
            return channel->gone();
        if (!table().open())
            return Status::error(NIXL_ERR_REMOTE_DISCONNECT, description(), " has ended");
        return {};
    }
};

} // namespace nixl::local
