// How a peer and the engine that joins get on.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "agent/engine_slot.h"
#include "util/mutex.h"
#include "util/status.h"

namespace nixl {

/// What the engine that joins found when it met a peer. Decided at the first use and kept, so that messages
/// to the peer keep to one lane: either the engine reached the peer, or other engines have to. Thread-safe.
///
///   unknown --reached--> met --peer is gone--> (the peer is dropped)
///      |
///      +--not reached, and others know the peer--> refused
class HostContact {
public:
    /// An engine that knows the peer, too.
    struct Other {
        EnginePtr engine;
        std::shared_ptr<Peer> peer;
    };

    /// Where the peer is, if that is decided; else nothing. NIXL_ERR_REMOTE_DISCONNECT: it is gone for
    /// everybody. Other errors: why others have to reach it. Does not connect, but waits while decide() does.
    std::optional<Result<HostLane>> known(Engine &engine, Peer &peer) const;

    /// Has the engine meet the peer, unless another call has done so meanwhile; answers as known().
    ///
    /// An engine that has met a peer knows when it is gone. One that has not may only look from the wrong
    /// place (another container, a copy of the machine), so others who know the peer have the last word.
    Result<HostLane> decide(Engine &engine, Peer &peer, const std::vector<Other> &others);

private:
    enum class State { kUnknown, kMet, kRefused };

    mutable SharedMutex mutex_; ///< held while the first call connects: it decides for all
    State state_ NIXL_GUARDED_BY(mutex_) = State::kUnknown;
    Status refusal_ NIXL_GUARDED_BY(mutex_);
};

} // namespace nixl
