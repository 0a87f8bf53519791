// A transfer request: what it moves, and its runs. Its states are those of transfer_life.h.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/planner.h"
#include "agent/prepared_list.h"
#include "agent/request_blocks.h"
#include "agent/transfer_life.h"
#include "engine/engine.h"
#include "nixl_ext.h"
#include "telemetry/telemetry.h"
#include "util/mutex.h"
#include "util/status.h"

namespace nixl {

/// What a request is made of; constant once it is made.
struct TransferParts {
    nixl_xfer_op_t operation;
    nixl_mem_t localMemory;
    nixl_mem_t remoteMemory;
    std::string peerName;
    PeerPtr peer;                 ///< nullptr: loop-back
    std::optional<PeerLink> link; ///< of the chosen engine to the peer
    Service service;              ///< the chosen engine, and in whose name
    RequestBlocks blocks;
    Plan plan;
    std::string customParam;
    std::optional<std::string> notification;
};

/// What a call on a request answers.
struct RequestState {
    nixl_status_t code = NIXL_IN_PROG;
    std::string message;   ///< cause of an error
    bool news = true;      ///< false if an earlier call gave the same answer about the same run
    bool peerGone = false; ///< of NIXL_ERR_REMOTE_DISCONNECT: the peer itself, not only the connection
};

/// How long transfers may take to end.
struct TransferLimits {
    std::chrono::milliseconds run{0};      ///< a run without a limit of its own; 0: for ever
    std::chrono::milliseconds cutOff{500}; ///< after a cancel, until the engine ends the run by force
};

} // namespace nixl

/// Thread-safe; calls to the engine's request are made one at a time.
class nixlXferReqH {
public:
    using Clock = std::chrono::steady_clock;

    /// Prepares the request in its engine. `telemetry` may be null and outlives the request.
    static nixl::Result<std::shared_ptr<nixlXferReqH>>
    create(nixl::TransferParts parts, const nixl::TransferLimits &limits, nixl::Telemetry *telemetry);

    /// The engine's request is quiet: release() returned true, or it was never posted.
    ~nixlXferReqH() = default;

    nixlXferReqH(const nixlXferReqH &) = delete;
    nixlXferReqH &operator=(const nixlXferReqH &) = delete;

    /// Starts it. `change` replaces the stored notification: absent keeps it, nullopt inside clears it. A run
    /// that has not ended after `timeout` (0: never; absent: as the limits say) is cancelled.
    /// Returns the state after the post, or why it was not posted.
    nixl::RequestState post(const std::optional<std::optional<std::string>> &change,
                            std::optional<std::chrono::milliseconds> timeout = std::nullopt);

    /// The state; asks the engine if it is in progress, and sees to it that deadlines hold.
    nixl::RequestState status();

    /// What somebody who waits for its end finds.
    struct Look {
        bool ended = false; ///< it is not in progress
        /// What the waiter can do of it meanwhile; nullptr: nothing.
        std::shared_ptr<nixl::EngineWork> work{};
        /// It has to be looked at then, whatever its engine tells.
        std::optional<std::chrono::steady_clock::time_point> next{};
    };

    /// Asks the engine if it is in progress. An end stays news for those who ask for the state.
    Look look();

    /// Ends a run in progress. True if local memory is quiet: then status() tells what the run came to; else
    /// it has to be asked until it is. Never blocks.
    bool cancel(std::string cause);

    /// Whether local memory is quiet. Does not ask the engine.
    bool isQuiet() const;

    /// Ends a cancelled run by force, without waiting for what the limits say.
    void cutOff();

    /// True once local memory is quiet, after at most `patience`; a run in progress is cancelled. From then
    /// on the request cannot be posted.
    bool release(std::chrono::milliseconds patience);

    /// Ends a run that uses `entry`, for its deregistration. NIXL_ERR_BACKEND if it does not end in time.
    nixl::Status quiesce(const nixl::RegionEntry &entry, std::chrono::milliseconds patience);

    /// Microseconds (estimate, error margin).
    nixl::Result<std::pair<std::chrono::microseconds, std::chrono::microseconds>> estimate() const;

    /// NIXL_ERR_NOT_FOUND if a registration it uses, or its peer, is gone.
    nixl::Status checkLive() const;

    /// Times of the last run. REQUIRES: its status is NIXL_SUCCESS.
    nixl_xfer_telem_t times() const;

    nixlPathExplanation explanation() const;

    /// In whose name it is carried.
    const nixl::BackendPtr &
    backend() const {
        return parts_.service.backend;
    }

    /// The engine that carries it.
    const nixl::EnginePtr &
    carrier() const {
        return parts_.service.engine;
    }

    /// nullptr for loop-back.
    const nixl::PeerPtr &
    peer() const {
        return parts_.peer;
    }

private:
    nixlXferReqH(nixl::TransferParts parts, const nixl::TransferLimits &limits, nixl::Telemetry *telemetry);

    nixl::RequestState poll() NIXL_REQUIRES(mutex_);
    nixl::RequestState tell() NIXL_REQUIRES(mutex_);
    void beginCancel(nixl::Status cause) NIXL_REQUIRES(mutex_);
    nixl::Progress pursueCancel() NIXL_REQUIRES(mutex_);
    void force() NIXL_REQUIRES(mutex_);
    void end(nixl::Progress progress) NIXL_REQUIRES(mutex_);
    void countRun(int by);
    bool uses(const nixl::RegionEntry &entry) const;

    const nixl::EngineSlot &
    engine() const {
        return *parts_.service.engine;
    }

    // Constant after create().
    nixl::TransferParts parts_;
    std::vector<nixl::LocalRegionRef> localRegions_;
    std::vector<nixl::RemoteRegionRef> remoteRegions_;
    nixl::TransferSpec spec_;
    const nixl::TransferLimits limits_;
    nixl::Telemetry *const telemetry_;

    mutable nixl::Mutex mutex_;
    std::unique_ptr<nixl::EngineRequest> request_ NIXL_GUARDED_BY(mutex_);
    nixl::Life life_ NIXL_GUARDED_BY(mutex_) = nixl::Life::kCreated;
    nixl::RequestState state_ NIXL_GUARDED_BY(mutex_){NIXL_ERR_NOT_POSTED, "the request was never posted",
                                                      false};
    std::optional<std::string> notification_ NIXL_GUARDED_BY(mutex_);
    Clock::time_point started_ NIXL_GUARDED_BY(mutex_);
    /// In progress: when the run is cancelled. Cancelling: when it is cut off.
    std::optional<Clock::time_point> deadline_ NIXL_GUARDED_BY(mutex_);
    std::chrono::milliseconds timeout_ NIXL_GUARDED_BY(mutex_){0}; ///< of the run
    nixl::Status cause_ NIXL_GUARDED_BY(mutex_);                   ///< of the cancel
    nixl_xfer_telem_t times_ NIXL_GUARDED_BY(mutex_);
};
