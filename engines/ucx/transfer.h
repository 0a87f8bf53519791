// A transfer on its way through the connections of one or more workers.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engines/ucx/notifications.h"
#include "engines/ucx/peer.h"
#include "engines/ucx/regions.h"
#include "util/mutex.h"

namespace nixl::ucx {

class Transfer;

/// A run of blocks that goes through one connection.
class Share : public Operation {
public:
    Share(Transfer &transfer, Connection &connection, std::span<const Block> blocks, std::uint64_t bytes);

    /// Begins another run. REQUIRES: the worker's lock; not under way.
    void start();

    /// Few enough blocks that the thread that posts may feed them.
    bool small() const;

    /// Stops feeding. REQUIRES: the worker's lock.
    void
    stop() {
        stopped_ = true;
    }

    void feed() override;

    bool
    over() const override {
        return underWay_ == 0 && (flushed_ || !error_.ok() || (stopped_ && !allFed()));
    }

    void ended() override;

    /// The end of the last run, once ended() was called for it: success only if everything was moved.
    const Status &
    error() const {
        return error_;
    }

    /// Whether the last run was stopped before everything was moved.
    bool
    cutShort() const {
        return error_.ok() && !flushed_;
    }

    Connection &
    connection() const {
        return connection_;
    }

private:
    bool
    allFed() const {
        return next_ == blocks_.size();
    }

    void postNext();
    void flush();
    bool take(void *request);
    void fail(ucs_status_t status, bool posting);
    static void onDone(void *request, ucs_status_t status, void *share);

    Transfer &transfer_;
    Connection &connection_;
    const std::span<const Block> blocks_;
    const unsigned window_; ///< operations that may be under way

    // Under the worker's lock while it runs.
    std::uint64_t opening_ = 0;
    std::size_t next_ = 0;     ///< block to feed
    std::uint64_t offset_ = 0; ///< bytes of that block that were fed
    unsigned underWay_ = 0;
    bool stopped_ = false;
    bool flushing_ = false;
    bool flushed_ = false;
    Status error_;
};

/// What the engine lends to its transfers.
struct TransferContext {
    std::string agentName;
    UcxPeer *peer; ///< the other end; for loop-back, the agent itself
    bool loopback; ///< messages are delivered directly
    Inbox *inbox;
    std::function<void()> onActivity;
};

/// The state machine of a request: idle, moving, notifying, ended.
///
/// Shared: a message that is still on its way when the request is cancelled keeps it.
class Transfer : public std::enable_shared_from_this<Transfer> {
public:
    /// Shares are cut from `spec` for these workers: the blocks are dealt out in equal runs.
    Transfer(TransferContext context, const TransferSpec &spec, const std::vector<ProgressWorker *> &workers);

    /// REQUIRES: not under way.
    Progress start(const std::optional<std::string> &notification);

    Progress progress();

    /// Drives the workers that it waits for, unless threads do.
    void drive();

    /// True once local memory is quiet.
    bool cancel(std::chrono::milliseconds patience);

    // ---- For shares ----

    nixl_xfer_op_t
    operation() const {
        return operation_;
    }

    std::span<const LocalRegionRef>
    localRegions() const {
        return localRegions_;
    }

    std::span<const RemoteRegionRef>
    remoteRegions() const {
        return remoteRegions_;
    }

    /// A share ended. No locks are held.
    void shareEnded();

private:
    enum class Phase { kEnded, kMoving, kNotifying };

    void moved();
    Status outcomeOfShares() const;
    void end(std::uint64_t run, Status status) NIXL_EXCLUDES(mutex_);
    void endLocked(Status status) NIXL_REQUIRES(mutex_);

    const TransferContext context_;
    const nixl_xfer_op_t operation_;
    const std::span<const LocalRegionRef> localRegions_;
    const std::span<const RemoteRegionRef> remoteRegions_;
    std::vector<std::unique_ptr<Share>> shares_;

    std::atomic<std::size_t> sharesLeft_{0}; ///< of the present run, that have not ended
    std::optional<std::string> notification_;

    mutable Mutex mutex_;
    ConditionVariable changed_;
    Phase phase_ NIXL_GUARDED_BY(mutex_) = Phase::kEnded;
    std::uint64_t run_ NIXL_GUARDED_BY(mutex_) = 0; ///< number of the present start
    std::atomic<bool> ended_{true};                 ///< phase_ is kEnded; written under mutex_
    Status outcome_ NIXL_GUARDED_BY(mutex_);
    std::chrono::steady_clock::time_point endedAt_ NIXL_GUARDED_BY(mutex_){};
};

} // namespace nixl::ucx
