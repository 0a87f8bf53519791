#include "engines/ucx/transfer.h"

#include <algorithm>

#include "util/log.h"

namespace nixl::ucx {

namespace {

/// A block is posted in pieces of at most this size, so that a cancelled transfer stops soon.
constexpr std::uint64_t kPiece = std::uint64_t{4} << 20;
/// Bytes, and operations, that a share has under way: enough to keep a fast network busy.
constexpr std::uint64_t kWindowBytes = std::uint64_t{16} << 20;
constexpr unsigned kLeastWindow = 8;
constexpr unsigned kLargestWindow = 512;
/// A share of at most this many blocks is fed by the thread that posts it.
constexpr std::size_t kSmallShare = 32;

unsigned
windowFor(std::span<const Block> blocks, std::uint64_t bytes) {
    const std::uint64_t typical = std::clamp<std::uint64_t>(bytes / blocks.size(), 1, kPiece);
    return static_cast<unsigned>(
        std::clamp<std::uint64_t>(kWindowBytes / typical, kLeastWindow, kLargestWindow));
}

std::uint64_t
bytesOf(std::span<const Block> blocks) {
    std::uint64_t bytes = 0;
    for (const Block &block : blocks)
        bytes += block.length;
    return bytes;
}

} // namespace

Share::Share(Transfer &transfer, Connection &connection, std::span<const Block> blocks, std::uint64_t bytes)
    : transfer_(transfer), connection_(connection), blocks_(blocks), window_(windowFor(blocks, bytes)) {}

bool
Share::small() const {
    return blocks_.size() <= kSmallShare;
}

void
Share::start() {
    next_ = 0;
    offset_ = 0;
    stopped_ = flushing_ = flushed_ = false;
    error_ = {};
    const auto opening = connection_.open();
    if (opening.ok())
        opening_ = opening.value();
    else
        error_ = opening.status();
}

void
Share::feed() {
    while (error_.ok() && !stopped_ && !allFed() && underWay_ < window_)
        postNext();
    if (error_.ok() && allFed() && !flushing_)
        flush();
}

void
Share::postNext() {
    if (!connection_.stands(opening_)) {
        error_ = connection_.failure();
        return;
    }
    const Block &block = blocks_[next_];
    auto &remote = static_cast<PeerRegion &>(*transfer_.remoteRegions()[block.remoteRegion].region);
    const auto key = remote.key(connection_, opening_);
    if (!key.ok()) {
        error_ = key.status();
        return;
    }
    const auto &local = static_cast<OwnRegion &>(*transfer_.localRegions()[block.localRegion].region);
    const std::uint64_t length = std::min(block.length - offset_, kPiece);
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMH;
    param.cb.send = onDone;
    param.user_data = this;
    param.memh = local.handle();
    auto *memory = reinterpret_cast<char *>(block.local + offset_);
    const Api &api = connection_.worker().api();
    ++underWay_; // before the post: it may call back
    void *request =
        transfer_.operation() == NIXL_WRITE
            ? api.put_nbx(connection_.endpoint(), memory, length, block.remote + offset_, key.value(), &param)
            : api.get_nbx(connection_.endpoint(), memory, length, block.remote + offset_, key.value(),
                          &param);
    if (!take(request))
        return;
    offset_ += length;
    if (offset_ == block.length) {
        ++next_;
        offset_ = 0;
    }
}

/// After it everything is where it belongs: puts are complete at the target only when they are flushed.
void
Share::flush() {
    if (!connection_.stands(opening_)) {
        error_ = connection_.failure();
        return;
    }
    flushing_ = true;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send = onDone;
    param.user_data = this;
    ++underWay_;
    take(connection_.worker().api().ep_flush_nbx(connection_.endpoint(), &param));
}

/// Looks at what a post returned. False if it failed.
bool
Share::take(void *request) {
    if (UCS_PTR_IS_PTR(request))
        return true;
    --underWay_;
    if (const ucs_status_t status = UCS_PTR_STATUS(request); status != UCS_OK) {
        fail(status, true);
        return false;
    }
    flushed_ = flushing_ && underWay_ == 0 && error_.ok();
    return true;
}

void
Share::fail(ucs_status_t status, bool posting) {
    Status error = connection_.report(opening_, status, posting);
    if (error_.ok())
        error_ = std::move(error);
}

void
Share::onDone(void *request, ucs_status_t status, void *argument) {
    auto *share = static_cast<Share *>(argument);
    --share->underWay_;
    if (status != UCS_OK)
        share->fail(status, false);
    share->flushed_ = share->flushing_ && share->underWay_ == 0 && share->error_.ok();
    share->connection_.worker().api().request_free(request);
}

void
Share::ended() {
    transfer_.shareEnded();
}

Transfer::Transfer(TransferContext context, const TransferSpec &spec,
                   const std::vector<ProgressWorker *> &workers)
    : context_(std::move(context)), operation_(spec.operation), localRegions_(spec.localRegions),
      remoteRegions_(spec.remoteRegions) {
    const std::size_t each = (spec.blocks.size() + workers.size() - 1) / workers.size();
    for (std::size_t i = 0; i * each < spec.blocks.size(); ++i) {
        const auto blocks = spec.blocks.subspan(i * each, std::min(each, spec.blocks.size() - i * each));
        shares_.push_back(std::make_unique<Share>(*this, context_.peer->connection(workers[i]->index()),
                                                  blocks, bytesOf(blocks)));
    }
}

Progress
Transfer::start(const std::optional<std::string> &notification) {
    notification_ = notification;
    {
        LockGuard lock(mutex_);
        ++run_;
        phase_ = Phase::kMoving;
        ended_.store(false);
        outcome_ = {};
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
    return progress();
}

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
    if (context_.onActivity)
        context_.onActivity();
}

Progress
Transfer::progress() {
    if (!ended_.load())
        return {};
    LockGuard lock(mutex_);
    return {outcome_.code(), outcome_.message(), endedAt_};
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
            changed_.waitFor(mutex_, std::chrono::milliseconds(1),
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

} // namespace nixl::ucx
