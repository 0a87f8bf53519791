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

#include "engine/anteroom.h"
#include "engines/ucx/peer.h"
#include "engines/ucx/share.h"
#include "util/mutex.h"

namespace nixl::ucx {

/// What the engine lends to its transfers.
struct TransferContext {
    std::string agentName;
    UcxPeer *peer; ///< the other end; for loop-back, the agent itself
    bool loopback; ///< messages are delivered directly
    Inbox &inbox;
    Anteroom &toSelf;
    std::function<void()> onActivity;
};

/// Makes the share of a transfer that goes through a worker.
using ShareMaker = std::function<Result<std::unique_ptr<Share>>(const ShareWork &work, Connection &connection,
                                                                std::span<const Block> blocks)>;

/// The state machine of a request:
///
///   ended --start--> moving --everything moved--> notifying --message on its way--> ended
///                      |  |
///                      |  +--connection broken--> judging --whether the peer is lost--> ended
///                      +--error, cancel: nothing is under way any more--> ended
///
/// Without a message "notifying" is left out. Local memory is busy while it is moving only.
///
/// Shared: a message that is still on its way when the request is cancelled keeps it.
class Transfer : public std::enable_shared_from_this<Transfer> {
public:
    /// Shares are cut from `spec` for these workers: the blocks are dealt out in equal runs. Errors of
    /// `makeShare`.
    static Result<std::shared_ptr<Transfer>> create(TransferContext context, const TransferSpec &spec,
                                                    const std::vector<ProgressWorker *> &workers,
                                                    const ShareMaker &makeShare);

    /// REQUIRES: not under way.
    Progress start(const std::optional<std::string> &notification);

    Progress progress();

    /// Drives the workers that it waits for, unless threads do.
    void drive();

    /// True once local memory is quiet.
    bool cancel(std::chrono::milliseconds patience);

    /// Ends the connections that a cancelled run waits for.
    void cutOff();

private:
    enum class Phase { kEnded, kMoving, kNotifying, kJudging };

    Transfer(TransferContext context, const TransferSpec &spec);
    void shareEnded();
    void moved();
    Status outcomeOfShares() const;

    /// Where the messages of a run go, also when the request and its peer are gone.
    struct Way {
        std::shared_ptr<Connection> connection; ///< null: to the agent itself
        bool letters;
    };

    void notify(const Way &way, std::uint64_t run, std::string message);
    void tellFailure(const Way &way, const std::optional<std::string> &message, const Status &why);
    std::shared_ptr<Connection> brokenConnection() const;
    void judged(std::uint64_t run, const Status &outcome, bool lost) NIXL_EXCLUDES(mutex_);
    void end(std::uint64_t run, Status status) NIXL_EXCLUDES(mutex_);
    void endLocked(Status status) NIXL_REQUIRES(mutex_);

    const TransferContext context_;
    const ShareWork work_;
    std::vector<std::unique_ptr<Share>> shares_;

    std::atomic<std::size_t> sharesLeft_{0}; ///< of the present run, that have not ended
    std::optional<std::string> notification_;

    mutable Mutex mutex_;
    ConditionVariable changed_;
    Phase phase_ NIXL_GUARDED_BY(mutex_) = Phase::kEnded;
    std::uint64_t run_ NIXL_GUARDED_BY(mutex_) = 0; ///< number of the present start
    bool starting_ NIXL_GUARDED_BY(mutex_) = false; ///< within start(), whose caller sees an end itself
    std::atomic<bool> ended_{true};                 ///< phase_ is kEnded; written under mutex_
    Status outcome_ NIXL_GUARDED_BY(mutex_);
    bool peerLives_ NIXL_GUARDED_BY(mutex_) = false; ///< although the run ended with its connection
    std::chrono::steady_clock::time_point endedAt_ NIXL_GUARDED_BY(mutex_){};
};

} // namespace nixl::ucx
