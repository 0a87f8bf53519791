// The initiator's side of getting to know a peer.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "engines/local/endpoint.h"
#include "engines/local/life_page.h"
#include "engines/local/marks.h"
#include "engines/local/protocol.h"
#include "engines/local/region_table.h"
#include "util/scoped_fd.h"
#include "util/status.h"

namespace nixl::local {

/// A peer that has proved who it is.
struct Acquaintance {
    ScopedFd socket;
    pid_t pid;
    ScopedFd pidfd;
    PeerTable table;
    LifeView life;
    SharedMarks marks;
    /// What the peer reads to see whether our program still runs; stays in place as long as the connection.
    std::unique_ptr<Challenge> token;
    std::uint32_t revision = 0;   ///< that both sides understand
    std::uint32_t slot = kNoSlot; ///< of this connection in its table
};

/// Connects to the engine that `peer` names and checks, in this order: that the process is visible and runs
/// as our user; that it answers as the incarnation and agent that are meant; that the memory we can read and
/// write under its pid is the memory of whoever answers; that it runs. Blocks until `deadline` at most.
/// NIXL_ERR_REMOTE_DISCONNECT: it is gone; NIXL_ERR_MISMATCH: it is somebody else; NIXL_ERR_BACKEND: it
/// cannot be reached this way. The message says why; it does not name the agent.
Result<Acquaintance> meetPeer(const Endpoint &self, const HostHints &ownHints, int lifeFd,
                              const ConnectionInfo &peer, const std::string &agent,
                              std::chrono::steady_clock::time_point deadline);

} // namespace nixl::local
