#include "engines/ucx/transfer.h"

#include <algorithm>

#include "util/log.h"

namespace nixl::ucx {

Transfer::Transfer(TransferContext context, const TransferSpec &spec)
    : context_(std::move(context)),
      work_{spec.operation, spec.localRegions, spec.remoteRegions, [this] { shareEnded(); }} {}

Result<std::shared_ptr<Transfer>>
Transfer::create(TransferContext context, const TransferSpec &spec,
                 const std::vector<ProgressWorker *> &workers, const ShareMaker &makeShare) {
    std::shared_ptr<Transfer> transfer(new Transfer(std::move(context), spec));
    const std::size_t each = (spec.blocks.size() + workers.size() - 1) / workers.size();
    for (std::size_t i = 0; i * each < spec.blocks.size(); ++i) {
        const auto blocks = spec.blocks.subspan(i * each, std::min(each, spec.blocks.size() - i * each));
        auto share =
            makeShare(transfer->work_, transfer->context_.peer->connection(workers[i]->index()), blocks);
        if (!share.ok())
            return share.status();
        transfer->shares_.push_back(std::move(share).value());
    }
    return transfer;
}

Progress
Transfer::start(const std::optional<std::string> &notification) {
    notification_ = notification;
    {
        LockGuard lock(mutex_);
        ++run_;
        starting_ = true;
        phase_ = Phase::kMoving;
        ended_.store(false);
        outcome_ = {};
        cutOff_ = false;
    }
    sharesLeft_.store(shares_.size());
    for (const auto &share : shares_) {
        ProgressWorker &worker = share->connection().worker();
        const auto begin = [&] {
            share->start();
            worker.add(*share);
        };
        if (worker.threaded() && !share->small())
            worker.enter(begin);
        else
            worker.with(begin);
    }
    {
        LockGuard lock(mutex_);
        starting_ = false;
    }
    return progress();
}

/// No locks are held.
void
Transfer::shareEnded() {
    if (sharesLeft_.fetch_sub(1) == 1)
        moved();
}

Status
Transfer::outcomeOfShares() const {
    for (const auto &share : shares_) {
        if (!share->error().ok())
            return share->error();
    }
    for (const auto &share : shares_) {
        if (share->cutShort())
            return Status(NIXL_ERR_CANCELED, "the transfer was cancelled");
    }
    return {};
}

/// All shares ended: local memory is quiet.
void
Transfer::moved() {
    const auto self = shared_from_this(); // after kNotifying the request may be cancelled and destroyed
    std::shared_ptr<Connection> connection;
    std::string payload;
    std::uint64_t run = 0;
    {
        LockGuard lock(mutex_);
        Status outcome = outcomeOfShares();
        cutOff_ =
            std::any_of(shares_.begin(), shares_.end(), [](const auto &share) { return share->wasCutOff(); });
        if (!outcome.ok() || !notification_)
            return endLocked(std::move(outcome));
        if (context_.loopback) {
            context_.inbox->put({context_.agentName, *notification_});
            return endLocked({});
        }
        connection = context_.peer->sharedConnection(0);
        payload = encodeNotification(context_.agentName, *notification_);
        run = run_;
        phase_ = Phase::kNotifying;
        changed_.notifyAll();
    }
    Message::send(connection, std::move(payload), [self, run](const Status &status) {
        self->end(run, status.withContext("the data was moved, its notification was not sent"));
    });
}

/// Ends a run, unless cancel() has ended it.
void
Transfer::end(std::uint64_t run, Status status) {
    LockGuard lock(mutex_);
    if (run == run_ && phase_ == Phase::kNotifying)
        endLocked(std::move(status));
}

/// Whoever sees the end may post again or destroy the transfer once the lock is free.
void
Transfer::endLocked(Status status) {
    endedAt_ = std::chrono::steady_clock::now();
    outcome_ = std::move(status);
    phase_ = Phase::kEnded;
    ended_.store(true);
    changed_.notifyAll();
    if (context_.onActivity && !starting_)
        context_.onActivity();
}

Progress
Transfer::progress() {
    if (!ended_.load())
        return {};
    LockGuard lock(mutex_);
    return {outcome_.code(), outcome_.message(), endedAt_, cutOff_};
}

void
Transfer::drive() {
    for (const auto &share : shares_)
        share->connection().worker().tryProgress();
    if (notification_)
        context_.peer->connection(0).worker().tryProgress();
}

bool
Transfer::cancel(std::chrono::milliseconds patience) {
    if (ended_.load())
        return true;
    for (const auto &share : shares_)
        share->connection().worker().with([&] { share->stop(); });
    const auto limit = std::chrono::steady_clock::now() + patience;
    do {
        drive();
        LockGuard lock(mutex_);
        const bool quiet =
            changed_.waitFor(mutex_, std::min(patience, std::chrono::milliseconds(1)),
                             [this]() NIXL_REQUIRES(mutex_) { return phase_ != Phase::kMoving; });
        if (quiet) {
            // If only the message is still on its way, nobody waits for it.
            if (phase_ == Phase::kNotifying)
                endLocked(Status(NIXL_ERR_CANCELED,
                                 "the transfer was cancelled after its data was moved; its "
                                 "notification may arrive"));
            return true;
        }
    } while (std::chrono::steady_clock::now() < limit);
    return false;
}

void
Transfer::cutOff() {
    for (const auto &share : shares_)
        share->connection().worker().with([&] { share->cutOff(); });
}

} // namespace nixl::ucx
