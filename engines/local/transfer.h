// A transfer while it runs: batches, outcome, message.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/batch_plan.h"
#include "engine/engine.h"
#include "engines/local/copy_pool.h"
#include "engines/local/endpoint.h"
#include "engines/local/host_copy.h"
#include "engines/local/host_process.h"
#include "engines/local/lane.h"
#include "util/mutex.h"

namespace nixl::local {

// A batch takes some ten to a hundred microseconds: as long as it runs, nobody can end a registration or
// cancel, and a thread that asks for the state may be doing it. What it costs beside its copies is one or
// two.

/// Most that one batch moves.
inline constexpr std::uint64_t kBatchBytes = 512 << 10;
/// Most pieces of a batch that is copied.
inline constexpr std::size_t kBatchPieces = 512;
/// Most pieces of a batch that the kernel copies, where each costs a microsecond beside its bytes.
inline constexpr std::size_t kKernelBatchPieces = 64;

/// The body of a request; held by the request and by whoever works on it. Thread-safe.
///
///   idle --start--> copying --last batch ends--> telling --message on its way--> done
///                      |                            |
///                      |                            +--cancel: the message is taken back--> canceled
///                      +--error, cancel: the batches under way end--> failed, canceled
///
/// Without a message, or after an error, "telling" is left out; the peer hears of the error instead. A
/// message of which a part is sent cannot be taken back, and a cancel comes too late. Done, failed and
/// canceled can be started again.
class Transfer : public CopyJob, public EngineWork, public std::enable_shared_from_this<Transfer> {
public:
    /// Where the remote regions are mapped here; empty: they are not, or in this process anyway.
    using Mappings = std::span<const std::shared_ptr<const PeerMapping>>;

    /// What `spec` points to is valid while the transfer runs. `mappings` as in Reach.
    Transfer(HostProcess &process, std::shared_ptr<Endpoint> self, const TransferSpec &spec, BatchPlan plan,
             std::vector<std::weak_ptr<const PeerMapping>> mappings);

    std::size_t
    batchCount() const {
        return plan_.count();
    }

    /// Whether the calling thread can do it itself in little time.
    bool small() const;

    /// Begins a run, whose end is told of only after posted(). REQUIRES: none is in progress.
    void start(const Lane &lane, const std::optional<std::string> &message);

    /// Ends as failed without having begun. REQUIRES: no run is in progress.
    void fail(const Status &reason);

    std::optional<Claim> claim() override;
    void run(std::size_t batch) override;

    Progress progress() const;

    /// progress(), for a caller of start() that tells of an end itself.
    Progress posted();

    /// Whether there may be a batch that nobody has taken.
    bool wantsHelp() const;

    /// Does a batch if one is left. Waits for nobody's batch.
    void help() override;

    /// Claims no more and waits for the batches under way. True: terminal.
    bool cancel(std::chrono::milliseconds patience);

private:
    enum class Phase { kIdle, kCopying, kTelling, kTerminal };

    struct Pieces;

    Status copy(std::size_t batch, const Lane &lane, Mappings mappings) const;
    Status collect(std::size_t batch, const Lane &lane, Mappings mappings, Pieces &pieces) const;
    void takeMappings() NIXL_REQUIRES(mutex_);
    Status explainFault(const CopyFault &fault, const Block &block, std::size_t index, std::uint64_t offset,
                        const Lane &lane) const;
    void batchEnded(const Status &status);
    void tell(const Lane &lane, std::uint64_t run, std::string message);
    void told(std::uint64_t run, const Status &status);
    void withdraw() NIXL_REQUIRES(mutex_);
    void finish(Status outcome) NIXL_REQUIRES(mutex_);
    void tellFailure(std::string message, const std::string &why) NIXL_REQUIRES(mutex_);

    HostProcess &process_;
    const std::shared_ptr<Endpoint> self_;
    const TransferSpec spec_;
    const BatchPlan plan_;
    const std::vector<std::weak_ptr<const PeerMapping>> known_;

    mutable Mutex mutex_;
    ConditionVariable ended_; // a batch or the transfer
    Phase phase_ NIXL_GUARDED_BY(mutex_) = Phase::kIdle;
    std::uint64_t
        run_ NIXL_GUARDED_BY(mutex_) = 0; // counts starts, so that a late answer does not end another run
    /// Whoever has a batch under way uses lane and mappings without the lock: they change only while there is
    /// none. The mappings are held during a run, so that what ends meanwhile stays mapped.
    Lane lane_ NIXL_GUARDED_BY(mutex_);
    std::vector<std::shared_ptr<const PeerMapping>> mappings_ NIXL_GUARDED_BY(mutex_);
    bool mapped_ NIXL_GUARDED_BY(mutex_) = false;
    std::optional<std::string> message_ NIXL_GUARDED_BY(mutex_); // until telling, or the failure
    std::size_t next_ NIXL_GUARDED_BY(mutex_) = 0;
    std::size_t underWay_ NIXL_GUARDED_BY(mutex_) = 0;
    bool stop_ NIXL_GUARDED_BY(mutex_) = false;
    bool waits_ NIXL_GUARDED_BY(mutex_) = false;   // while telling: the message has to wait
    bool posting_ NIXL_GUARDED_BY(mutex_) = false; // from start() to posted()
    Status outcome_ NIXL_GUARDED_BY(mutex_);
    /// From when no batch is left until the end; changes under the lock. So who asks again and again does not
    /// take the lock from those who are at work.
    std::atomic<bool> othersAtWork_{false};
    std::chrono::steady_clock::time_point endTime_ NIXL_GUARDED_BY(mutex_); // while terminal
};

} // namespace nixl::local
