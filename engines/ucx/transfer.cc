#include "engines/ucx/transfer.h"

#include <algorithm>

#include "engines/ucx/link_message.h"
#include "engines/ucx/plain_message.h"
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
        peerLives_ = false;
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

/// Whose error is the outcome; nullptr: none is that of a connection which the other side ended.
std::shared_ptr<Connection>
Transfer::brokenConnection() const {
    for (const auto &share : shares_) {
        if (share->error().code() == NIXL_ERR_REMOTE_DISCONNECT && !share->wasCutOff())
            return share->connection().shared_from_this();
    }
    return nullptr;
}

/// All shares ended: local memory is quiet.
void
Transfer::moved() {
    const auto self = shared_from_this(); // after kMoving the request may be cancelled and destroyed
    std::shared_ptr<Connection> broken;
    Way way{};
    Status outcome;
    std::uint64_t run = 0;
    std::optional<std::string> message;
    bool notifies = false;
    {
        LockGuard lock(mutex_);
        run = run_;
        if (!context_.loopback)
            way = {context_.peer->sharedConnection(0), context_.peer->packs()};
        message = notification_;
        outcome = outcomeOfShares();
        notifies = outcome.ok() && message;
        if (outcome.code() == NIXL_ERR_REMOTE_DISCONNECT && !context_.loopback)
            broken = brokenConnection();
        peerLives_ = outcome.code() == NIXL_ERR_REMOTE_DISCONNECT && !broken;
        if (notifies || broken) {
            phase_ = notifies ? Phase::kNotifying : Phase::kJudging;
            outcome_ = outcome;
            changed_.notifyAll();
        }
    }
    if (notifies) {
        notify(way, run, std::move(*message));
    } else if (broken) {
        broken->worker().enter([&] {
            broken->whenJudged([=](bool lost) {
                if (!lost) // also if the run was cancelled meanwhile
                    self->tellFailure(way, message, outcome);
                self->judged(run, outcome, lost);
            });
        });
    } else {
        if (!outcome.ok())
            tellFailure(way, message, outcome);
        LockGuard lock(mutex_);
        endLocked(std::move(outcome));
    }
}

/// The run is in kNotifying, and may be ended by cancel() at any time.
void
Transfer::notify(const Way &way, std::uint64_t run, std::string message) {
    const auto self = shared_from_this();
    if (!way.connection) {
        const auto entered =
            context_.toSelf.enter(context_.agentName, std::move(message), this,
                                  [self, run](const Status &status) { self->end(run, status); });
        if (entered && context_.onActivity)
            context_.onActivity();
        if (entered)
            end(run, *entered);
        return;
    }
    auto sent = [self, run](const Status &status) {
        self->end(run, status.withContext("the data was moved, its notification was not sent"));
    };
    std::string payload = encodeNotification(context_.agentName, message);
    if (way.letters)
        Outbox::send(way.connection, LetterKind::kNotification, std::move(payload), std::move(sent));
    else
        PlainMessage::send(way.connection, std::move(payload), std::move(sent));
}

/// The message of a run, if it has one, does not come, and the peer is told, if it understands.
void
Transfer::tellFailure(const Way &way, const std::optional<std::string> &message, const Status &why) {
    if (!message)
        return;
    FailedNotification failure{context_.agentName, *message, why.message()};
    if (!way.connection) {
        context_.inbox.pushFailure(std::move(failure));
    } else if (way.letters) {
        Outbox::send(way.connection, LetterKind::kFailure, encodeFailure(failure), nullptr);
    }
}

/// Whether the peer of a connection that broke is lost.
void
Transfer::judged(std::uint64_t run, const Status &outcome, bool lost) {
    LockGuard lock(mutex_);
    if (run != run_ || phase_ != Phase::kJudging)
        return;
    peerLives_ = !lost;
    endLocked(outcome);
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
    return {outcome_.code(), outcome_.message(), endedAt_, peerLives_};
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
            // If only the message is still on its way, or a judgement, nobody waits for it.
            if (phase_ == Phase::kJudging) {
                peerLives_ = true;
                endLocked(outcome_);
            }
            if (phase_ == Phase::kNotifying && context_.loopback)
                (void)context_.toSelf.withdraw(this);
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
