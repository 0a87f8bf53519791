// A part of a transfer: a run of blocks that goes through one connection.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engines/ucx/connection.h"
#include "engines/ucx/regions.h"

namespace nixl::ucx {

/// What the shares of a transfer have in common.
struct ShareWork {
    nixl_xfer_op_t operation;
    std::span<const LocalRegionRef> localRegions;
    std::span<const RemoteRegionRef> remoteRegions;
    std::function<void()> onEnd; ///< a share ended; called without locks
};

/// How the blocks move is for those that derive from it.
class Share : public Operation {
public:
    /// Few enough blocks that the thread that posts may feed them.
    bool small() const;

    /// Begins another run. REQUIRES: the worker's lock; not under way.
    void start();

    /// A run waits first while it is being found out whether the peer is there.
    void feed() final;

    bool
    over() const final {
        return begun_ ? done() : stopped_;
    }

    /// Stops feeding. REQUIRES: the worker's lock.
    void
    stop() {
        stopped_ = true;
    }

    /// The end of the last run, once ended() was called for it: success only if everything was moved.
    const Status &
    error() const {
        return error_;
    }

    /// Whether the last run was stopped before everything was moved.
    bool
    cutShort() const {
        return error_.ok() && !moved_;
    }

    /// Ends what is under way by ending the connection. Nothing for puts and gets: UCX 1.22 may crash if the
    /// peer, too, ends its side of a connection on which they were under way. REQUIRES: the worker's lock.
    virtual void
    cutOff() {}

    /// Whether the last run ended with its connection, which this side ended.
    bool
    wasCutOff() const {
        return connection_.wasCutOff(opening_);
    }

    Connection &
    connection() const {
        return connection_;
    }

    void ended() override;

protected:
    Share(const ShareWork &work, Connection &connection, std::span<const Block> blocks)
        : work_(work), connection_(connection), blocks_(blocks) {}

    /// For a run that begins; opening_ is that of the run, or error_ says why there is none.
    virtual void reset() = 0;

    /// Starts what can be started now, of a run that has begun.
    virtual void goOn() = 0;

    /// Nothing of a run that has begun is under way, and nothing more will be started.
    virtual bool done() const = 0;

    void begin();

    /// Looks at what a post returned. True: it is under way. False: it ended at once, well or with error_.
    bool underWay(void *request);

    /// Takes in how an operation ended.
    void fail(ucs_status_t status, bool posting);

    /// False: nothing may be posted any more, and error_ says why.
    bool canPost();

    const ShareWork &work_;
    Connection &connection_;
    const std::span<const Block> blocks_;

    // Under the worker's lock while it runs.
    std::uint64_t opening_ = 0;
    unsigned underWay_ = 0; ///< requests to UCX that have not ended
    bool begun_ = false;
    bool stopped_ = false;
    bool moved_ = false; ///< everything
    Status error_;
};

} // namespace nixl::ucx
