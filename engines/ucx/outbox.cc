#include "engines/ucx/outbox.h"

#include <algorithm>
#include <utility>

#include "engines/ucx/connection.h"

namespace nixl::ucx {

namespace {

/// How soon a full peer is asked again, and one whose connection cannot be opened.
constexpr std::chrono::milliseconds kRetry{10};
constexpr std::chrono::milliseconds kLongestRetry{200};
constexpr std::chrono::milliseconds kReopen{100};
/// An answer is wanted to a letter that comes so long after the last such, or after so many bytes; to the
/// last of many when the peer is asked whether it is there (liveness.h).
constexpr std::chrono::milliseconds kAskEvery{10};
constexpr std::uint64_t kAskBytes = std::uint64_t{1} << 20;
constexpr const char *kNotSent = "; it was not sent";
constexpr const char *kFateUnknown = "; whether it arrived is not known";
/// What a letter counts beyond its payload.
constexpr std::uint64_t kOverhead = 128;

} // namespace

struct Outbox::Sending {
    Outbox *outbox;
    LetterPtr letter;
    std::uint64_t opening;
    char header[kLetterHeaderBytes];
};

Outbox::Outbox(Connection &connection) : connection_(connection) {}

Outbox::~Outbox() = default;

void
Outbox::send(const std::shared_ptr<Connection> &connection, LetterKind kind, std::string payload, Done done) {
    auto letter = std::make_shared<Letter>(Letter{std::move(payload), kind, std::move(done)});
    ProgressWorker &worker = connection->worker();
    Done sent;
    worker.locked([&] {
        if (connection->outbox().push(letter))
            sent = std::exchange(letter->done, nullptr);
    });
    if (sent)
        sent(Status());
    else
        worker.enter([] {}); // not with(): this may be the end of another operation
}

/// True: the letter was sent at once.
bool
Outbox::push(LetterPtr letter) {
    if (const Status gone = connection_.givenUp(); !gone.ok()) {
        if (letter->done)
            tell(letter, gone);
        else
            connection_.undelivered(letter->payload, letter->kind, gone.message() + kNotSent);
        return false;
    }
    if (letter->kind == LetterKind::kFailure && bytes() > kMostBytes)
        return false; // of those nobody waits for room
    bytes_.fetch_add(letter->payload.size() + kOverhead);
    letters_.push_back(letter);
    join();
    if (!connection_.stands(opening_))
        (void)openAnew();
    if (next_ + 1 == end() && !blocked_ && mayTransmit())
        transmit(wantsAnswer(letter->payload.size()));
    return letter->sent;
}

bool
Outbox::waits() const {
    return blocked_ || next_ < end() || sending_ > 0 || (!letters_.empty() && !connection_.stands(opening_));
}

bool
Outbox::mayTransmit() const {
    return onTheWay_ < kWindow && sending_ < kMostSending && connection_.stands(opening_);
}

/// The worker works on it until everything was taken in.
void
Outbox::join() {
    if (keep_)
        return;
    keep_ = connection_.shared_from_this();
    connection_.worker().add(*this);
    connection_.worker().links().enter(connection_.link(), connection_);
}

bool
Outbox::wantsAnswer(std::size_t bytes) {
    if (!connection_.errorHandling())
        return true; // it is not asked otherwise
    unasked_ += bytes + kOverhead;
    const auto now = Clock::now();
    if (unasked_ < kAskBytes && now - asked_ < kAskEvery)
        return false;
    unasked_ = 0;
    asked_ = now;
    return true;
}

/// Sends the next letter. False: the connection does not take it.
bool
Outbox::transmit(bool answer) {
    const LetterPtr &letter = this->letter(next_);
    auto sending = takeSending();
    sending->letter = letter;
    sending->opening = opening_;
    encodeLetterHeader({connection_.link(), next_, letter->kind, answer}, sending->header);
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    param.cb.send = onSent;
    param.user_data = sending.get();
    param.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY;
    onTheWay_ += letter->payload.size() + kOverhead;
    ++next_;
    ++sending_; // before the post: it may call back
    void *request = connection_.worker().api().am_send_nbx(
        connection_.endpoint(), kLetter, sending->header, sizeof sending->header,
        sending->letter->payload.data(), sending->letter->payload.size(), &param);
    if (UCS_PTR_IS_PTR(request)) {
        (void)sending.release();
        return true;
    }
    --sending_;
    const ucs_status_t status = UCS_PTR_STATUS(request);
    if (status == UCS_OK) {
        letter->sent = true;
    } else {
        --next_;
        onTheWay_ -= letter->payload.size() + kOverhead;
        retryAt_ = Clock::now() + kReopen;
        (void)connection_.report(opening_, status, true);
    }
    sending->letter = nullptr;
    idle_ = std::move(sending);
    return status == UCS_OK;
}

/// Most are sent at once, and the same one serves them all.
std::unique_ptr<Outbox::Sending>
Outbox::takeSending() {
    return idle_ ? std::move(idle_) : std::make_unique<Sending>(Sending{this, nullptr, 0, {}});
}

void
Outbox::onSent(void *request, ucs_status_t status, void *argument) {
    const std::unique_ptr<Sending> sending(static_cast<Sending *>(argument));
    Outbox &outbox = *sending->outbox;
    --outbox.sending_;
    if (status == UCS_OK) {
        sending->letter->sent = true;
        outbox.tell(sending->letter, Status());
    } else {
        (void)outbox.connection_.report(sending->opening, status, false);
    }
    outbox.connection_.worker().api().request_free(request);
}

void
Outbox::tell(const LetterPtr &letter, Status status) {
    if (letter->done)
        connection_.worker().later(
            [done = std::exchange(letter->done, nullptr), status = std::move(status)] { done(status); });
}

/// A connection that broke, or the first one: everything that was not taken in goes again.
bool
Outbox::openAnew() {
    if (Clock::now() < retryAt_)
        return false;
    retryAt_ = Clock::now() + kReopen;
    const auto opening = connection_.open();
    if (!opening.ok())
        return false;
    opening_ = opening.value();
    next_ = first_;
    onTheWay_ = 0;
    blocked_ = false;
    return true;
}

void
Outbox::feed() {
    if (letters_.empty() || (next_ == end() && connection_.stands(opening_)))
        return;
    if (!connection_.stands(opening_) && !openAnew()) {
        connection_.worker().lookAgain();
        return;
    }
    if (blocked_) {
        retryFull();
        return;
    }
    while (next_ < end() && mayTransmit()) {
        const LetterPtr held = letter(next_);
        if (!transmit(wantsAnswer(held->payload.size())))
            break;
        if (held->sent)
            tell(held, Status());
    }
}

/// One letter at a time, until the peer says that it took it in.
void
Outbox::retryFull() {
    if (Clock::now() >= retryAt_ && next_ < end() && sending_ == 0) {
        const LetterPtr held = letter(next_);
        (void)transmit(true);
        retryAt_ = Clock::now() + retry_;
        retry_ = std::min(2 * retry_, kLongestRetry);
        if (held->sent)
            tell(held, Status());
        next_ = first_;
        onTheWay_ = 0;
    }
    connection_.worker().lookAgain();
}

void
Outbox::takeIn(const Pong &pong) {
    if (pong.expected > end() || pong.expected < first_)
        return; // of a stranger, or overtaken by another
    if (pong.expected > first_)
        retry_ = kRetry;
    for (; first_ < pong.expected; ++first_) {
        const LetterPtr &letter = letters_.front();
        const std::uint64_t size = letter->payload.size() + kOverhead;
        bytes_.fetch_sub(size);
        if (first_ < next_)
            onTheWay_ -= std::min(onTheWay_, size);
        tell(letter, Status());
        letters_.pop_front();
    }
    next_ = std::max(next_, first_);
    // While the peer has no room, only a letter that it takes in says that it has.
    if (pong.state == (blocked_ ? LetterState::kGap : LetterState::kTaken))
        return;
    next_ = first_; // what was sent beyond is dropped there
    onTheWay_ = 0;
    const bool full = pong.state == LetterState::kFull;
    if (full && !blocked_)
        retryAt_ = Clock::now() + retry_;
    blocked_ = full && !letters_.empty();
}

void
Outbox::giveUp(const Status &why, bool tellUndelivered) {
    for (const LetterPtr &letter : letters_) {
        if (letter->done)
            tell(letter, why);
        else if (tellUndelivered)
            connection_.undelivered(letter->payload, letter->kind,
                                    why.message() + (letter->sent ? kFateUnknown : kNotSent));
    }
    first_ = next_ = end();
    letters_.clear();
    bytes_ = 0;
    onTheWay_ = 0;
    blocked_ = false;
}

bool
Outbox::over() const {
    return letters_.empty() && sending_ == 0;
}

/// A letter that came between the end and this call is worked on further.
void
Outbox::ended() {
    std::shared_ptr<Connection> keep;
    connection_.worker().locked([&] {
        if (!over()) {
            connection_.worker().add(*this);
            return;
        }
        keep = std::move(keep_);
        connection_.leaveIfIdle();
    });
}

} // namespace nixl::ucx
