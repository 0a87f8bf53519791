#include "engines/local/transfer.h"

#include <errno.h>
#include <string.h>

#include <array>
#include <utility>

#include "engines/local/delivery.h"
#include "engines/local/identity.h"
#include "engines/local/marks.h"
#include "engines/local/regions.h"

namespace nixl::local {

namespace {

/// What a posting call does itself: less work than waking a thread and waiting for it.
constexpr std::uint64_t kSmallBytes = 1 << 20;
constexpr std::size_t kSmallBlocks = 32;

iovec
piece(std::uint64_t address, std::uint64_t length) {
    return {reinterpret_cast<void *>(address), static_cast<std::size_t>(length)};
}

} // namespace

struct Transfer::Pieces {
    std::array<iovec, kBatchPieces> local;
    std::array<iovec, kBatchPieces> remote;
    std::size_t count = 0;
};

Transfer::Transfer(HostProcess &process, std::shared_ptr<Endpoint> self, const TransferSpec &spec,
                   BatchPlan plan, std::vector<std::weak_ptr<const PeerMapping>> mappings)
    : process_(process), self_(std::move(self)), spec_(spec), plan_(std::move(plan)),
      known_(std::move(mappings)), mappings_(known_.size()) {}

bool
Transfer::small() const {
    return spec_.bytes <= kSmallBytes && spec_.blocks.size() <= kSmallBlocks;
}

void
Transfer::start(const Lane &lane, const std::optional<std::string> &message) {
    const LockGuard lock(mutex_);
    phase_ = Phase::kCopying;
    ++run_;
    lane_ = lane;
    takeMappings();
    message_ = message;
    next_ = 0;
    stop_ = false;
    posting_ = true;
    othersAtWork_.store(false, std::memory_order_relaxed);
    outcome_ = Status();
}

/// For a run. If one has ended meanwhile, the run goes another way, or finds that its registration is gone.
void
Transfer::takeMappings() {
    mapped_ = !known_.empty();
    for (std::size_t i = 0; i < known_.size(); ++i) {
        mappings_[i] = known_[i].lock();
        mapped_ = mapped_ && mappings_[i];
    }
}

void
Transfer::fail(const Status &reason) {
    const LockGuard lock(mutex_);
    ++run_;
    finish(reason);
}

std::optional<CopyJob::Claim>
Transfer::claim() {
    const LockGuard lock(mutex_);
    if (phase_ != Phase::kCopying || stop_ || next_ == batchCount())
        return std::nullopt;
    ++underWay_;
    const std::size_t batch = next_++;
    const std::size_t left = batchCount() - next_;
    if (left == 0)
        othersAtWork_.store(true, std::memory_order_relaxed);
    return Claim{batch, left};
}

void
Transfer::run(std::size_t batch) {
    const Lane *lane;
    Mappings mappings;
    {
        const LockGuard lock(mutex_);
        lane = &lane_;
        if (mapped_)
            mappings = mappings_;
    }
    batchEnded(copy(batch, *lane, mappings));
}

/// The protocol of marks.h: first the marks, then the look at keys and life, then the copy.
Status
Transfer::copy(std::size_t batch, const Lane &lane, Mappings mappings) const {
    const MarkGuard ours(process_.marks());
    std::optional<MarkGuard> theirs;
    if (lane.channel)
        theirs.emplace(lane.channel->marks());
    NIXL_RETURN_IF_ERROR(lane.alive());

    Pieces pieces;
    NIXL_RETURN_IF_ERROR(collect(batch, lane, mappings, pieces));
    const pid_t pid = mappings.empty() ? lane.pid() : 0;
    const auto fault = copyPieces(pid, spec_.operation, std::span(pieces.local.data(), pieces.count),
                                  std::span(pieces.remote.data(), pieces.count));
    if (!fault)
        return {};
    NIXL_RETURN_IF_ERROR(lane.alive()); // the better reason
    const BlockPosition start = plan_.start(batch);
    const std::size_t index = start.block + fault->piece;
    const std::uint64_t offset = (fault->piece == 0 ? start.offset : 0) + fault->offset;
    return explainFault(*fault, spec_.blocks[index], index, offset, lane);
}

/// Fills in the pieces of a batch whose blocks lie in memory that is registered on both sides.
Status
Transfer::collect(std::size_t batch, const Lane &lane, Mappings mappings, Pieces &pieces) const {
    const TableView remoteTable = lane.table();
    const TableView localTable = self_->table.view();
    std::uint32_t lastRemote = UINT32_MAX;
    std::uint32_t lastLocal = UINT32_MAX;
    std::optional<MemoryRange> remote;
    std::optional<MemoryRange> local;
    return plan_.visit(spec_.blocks, batch, [&](std::size_t i, std::uint64_t from, std::uint64_t length) {
        const Block &block = spec_.blocks[i];
        if (std::exchange(lastRemote, block.remoteRegion) != block.remoteRegion)
            remote = remoteTable.find(static_cast<PeerRegion *>(spec_.remoteRegions[lastRemote].region)->key);
        if (std::exchange(lastLocal, block.localRegion) != block.localRegion)
            local = localTable.find(static_cast<OwnRegion *>(spec_.localRegions[lastLocal].region)->key);
        if (!remote || !remote->covers(block.remote, block.length))
            return Status::error(NIXL_ERR_NOT_FOUND, "block ", i, ": the memory at ", Hex{block.remote},
                                 " of ", lane.description(),
                                 remote ? " reaches beyond its registration" : " is not registered any more");
        if (!local || !local->covers(block.local, block.length))
            return Status::error(NIXL_ERR_NOT_FOUND, "block ", i, ": the local memory at ", Hex{block.local},
                                 local ? " reaches beyond its registration" : " is not registered any more");
        pieces.local[pieces.count] = piece(block.local + from, length);
        std::uint64_t remoteAddress = block.remote + from;
        if (!mappings.empty()) {
            const std::byte *here = mappings[block.remoteRegion]->find(remoteAddress, length);
            if (here == nullptr)
                return Status::error(NIXL_ERR_MISMATCH, "block ", i, ": the memory at ", Hex{block.remote},
                                     " of ", lane.description(), " is not in the memory that it lends");
            remoteAddress = reinterpret_cast<std::uint64_t>(here);
        }
        pieces.remote[pieces.count] = piece(remoteAddress, length);
        ++pieces.count;
        return Status();
    });
}

Status
Transfer::explainFault(const CopyFault &fault, const Block &block, std::size_t index, std::uint64_t offset,
                       const Lane &lane) const {
    // The memory of a process that is killed goes with its first thread, which need not be the one whose end
    // marks the life page.
    if (fault.error == ESRCH)
        return Status::error(NIXL_ERR_REMOTE_DISCONNECT, lane.description(),
                             " is gone: its process has ended");
    if (fault.error != EFAULT)
        return explainDenied(lane.pid(), fault.error).withContext(concat("block ", index));
    const bool written = fault.remoteSide == (spec_.operation == NIXL_WRITE);
    const char *denied = written ? " cannot be written" : " cannot be read";
    if (fault.remoteSide)
        return Status::error(NIXL_ERR_BACKEND, "block ", index, ": remote address ",
                             Hex{block.remote + offset}, " of ", lane.description(), denied,
                             ": it is unmapped or protected there");
    return Status::error(NIXL_ERR_BACKEND, "block ", index, ": local address ", Hex{block.local + offset},
                         denied, ": it is unmapped or protected");
}

void
Transfer::batchEnded(const Status &status) {
    Lane lane;
    std::uint64_t run = 0;
    std::optional<std::string> message;
    bool quietly = false;
    {
        const LockGuard lock(mutex_);
        --underWay_;
        if (!status.ok()) {
            stop_ = true;
            othersAtWork_.store(true, std::memory_order_relaxed);
            if (outcome_.ok())
                outcome_ = status;
        }
        if (underWay_ > 0 || (!stop_ && next_ < batchCount()))
            return;
        if (stop_) {
            finish(outcome_.ok() ? Status(NIXL_ERR_CANCELED, "canceled") : outcome_);
        } else if (message_) {
            phase_ = Phase::kTelling;
            waits_ = false;
            message = std::move(message_);
            message_.reset();
            lane = lane_;
            run = run_;
        } else {
            finish(Status());
        }
        quietly = posting_;
    }
    if (message)
        tell(lane, run, std::move(*message));
    else if (!quietly)
        self_->signalActivity();
}

void
Transfer::tell(const Lane &lane, std::uint64_t run, std::string message) {
    const auto later = [self = shared_from_this(), run](const Status &sent) { self->told(run, sent); };
    const std::optional<Status> sent =
        lane.channel ? lane.channel->sendThen(message, this, later)
                     : deliverThen(*self_, *lane.endpoint, std::move(message), this, later);
    if (sent) {
        told(run, *sent);
        return;
    }
    {
        const LockGuard lock(mutex_);
        if (run != run_ || phase_ != Phase::kTelling)
            return; // told meanwhile
        waits_ = true;
        if (!stop_)
            return;
        withdraw();
        if (phase_ != Phase::kTerminal || posting_)
            return;
    }
    self_->signalActivity();
}

void
Transfer::told(std::uint64_t run, const Status &status) {
    bool quietly = false;
    {
        const LockGuard lock(mutex_);
        if (run != run_ || phase_ != Phase::kTelling)
            return; // canceled meanwhile, after this was on its way
        finish(status);
        quietly = posting_;
    }
    if (!quietly)
        self_->signalActivity();
}

/// Ends the run, unless told() is about to.
void
Transfer::withdraw() {
    const Status canceled(NIXL_ERR_CANCELED, "canceled");
    if (!lane_.channel) {
        message_ = lane_.endpoint->anteroom.withdraw(this);
        if (message_)
            finish(canceled);
        return;
    }
    switch (lane_.channel->withdraw(this, canceled.message())) {
    case PeerChannel::Withdrawal::kDone:
        finish(canceled);
        break;
    case PeerChannel::Withdrawal::kTooLate:
        finish(Status());
        break;
    case PeerChannel::Withdrawal::kNotWaiting:
        break;
    }
}

/// Under the lock, so that a later run's message does not overtake it.
void
Transfer::tellFailure(std::string message, const std::string &why) {
    if (lane_.channel) {
        lane_.channel->sendFailure(message, why);
        return;
    }
    lane_.endpoint->inbox.pushFailure({self_->agent, std::move(message), why});
    lane_.endpoint->signalActivity();
}

void
Transfer::finish(Status outcome) {
    if (!outcome.ok() && message_)
        tellFailure(std::move(*message_), outcome.message());
    message_.reset();
    phase_ = Phase::kTerminal;
    for (auto &mapping : mappings_)
        mapping.reset();
    outcome_ = std::move(outcome);
    endTime_ = std::chrono::steady_clock::now();
    othersAtWork_.store(false, std::memory_order_relaxed);
    ended_.notifyAll();
}

Progress
Transfer::progress() const {
    const LockGuard lock(mutex_);
    if (phase_ != Phase::kTerminal)
        return {};
    return {outcome_.code(), outcome_.message(), endTime_};
}

Progress
Transfer::posted() {
    {
        const LockGuard lock(mutex_);
        posting_ = false;
    }
    return progress();
}

bool
Transfer::wantsHelp() const {
    return !othersAtWork_.load(std::memory_order_relaxed);
}

void
Transfer::help() {
    if (const auto claimed = claim())
        run(claimed->batch);
}

bool
Transfer::cancel(std::chrono::milliseconds patience) {
    const LockGuard lock(mutex_);
    if (phase_ == Phase::kIdle || phase_ == Phase::kTerminal)
        return true;
    stop_ = true;
    othersAtWork_.store(true, std::memory_order_relaxed);
    if (phase_ == Phase::kTelling) {
        if (waits_)
            withdraw();
    } else if (underWay_ == 0) {
        finish(Status(NIXL_ERR_CANCELED, "canceled"));
    }
    return ended_.waitFor(mutex_, patience,
                          [this]() NIXL_REQUIRES(mutex_) { return phase_ == Phase::kTerminal; });
}

} // namespace nixl::local
