// How the memory of a transfer is reached: which lane of the engine, and why not a faster one.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engines/local/peer_channel.h"
#include "engines/local/region_table.h"

namespace nixl::local {

/// Both ends are in this process.
Path pathWithin();
/// The peer is another process, of whose memory nothing is known yet.
Path pathBetween();

struct Reach {
    Path path;
    /// By remote region, if all of them are mapped here; else empty. They end with the registrations.
    std::vector<std::weak_ptr<const PeerMapping>> mappings;

    /// Whether the kernel copies, rather than the process itself.
    bool
    throughKernel() const {
        return path.hostLane != HostLane::kSameProcess && mappings.empty();
    }
};

/// Through mappings if the peer lends all the memory that is meant, which it is asked for at its first use,
/// for at most `patience`; else with process_vm calls. Local memory that a READ fills must be writable for
/// the first: a plain copy to what is not is a fault of the program, a process_vm call's an error.
Reach reachThrough(PeerChannel &channel, const TableView &local, const TransferSpec &spec,
                   std::chrono::milliseconds patience);

} // namespace nixl::local
