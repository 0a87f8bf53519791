#include "engines/local/peer_channel.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "util/log.h"

namespace nixl::local {

namespace {

/// Bytes that may wait in the queue besides the message that is being sent.
constexpr std::size_t kQueueBytes = 16 << 20;
/// Beats without an answer after which a peer is stalled. Counted instead of timed: if this process was
/// stopped itself, the time that passed says nothing about the peer.
constexpr int kSilentBeats = 2;

} // namespace

Result<std::shared_ptr<PeerChannel>>
PeerChannel::create(EventLoop &loop, Heartbeat &heartbeat, Acquaintance peer, std::string agent,
                    Hooks hooks) {
    std::shared_ptr<PeerChannel> channel(
        new PeerChannel(loop, heartbeat, std::move(peer), std::move(agent), std::move(hooks)));
    Status watched;
    loop.call([&] { watched = channel->watchFromLoop(); });
    if (!watched.ok())
        return watched;
    return channel;
}

PeerChannel::PeerChannel(EventLoop &loop, Heartbeat &heartbeat, Acquaintance peer, std::string agent,
                         Hooks hooks)
    : loop_(loop), heartbeat_(heartbeat), peer_(std::move(peer)),
      description_(concat("agent '", agent, "' (process ", peer_.pid, ")")), hooks_(std::move(hooks)) {}

PeerChannel::~PeerChannel() {
    close(std::chrono::milliseconds(0));
}

Status
PeerChannel::watchFromLoop() {
    NIXL_RETURN_IF_ERROR(loop_.watchFromLoop(peer_.socket.get(), EPOLLIN | EPOLLRDHUP,
                                             [this](std::uint32_t events) { onSocket(events); }));
    // Ends of processes are told by the pidfd: a child that inherited the socket may keep it open.
    NIXL_RETURN_IF_ERROR(
        loop_.watchFromLoop(peer_.pidfd.get(), EPOLLIN, [this](std::uint32_t) { breakOff(End::kPeer); }));
    heartbeat_.addFromLoop(this, [this] { beatFromLoop(); });
    return {};
}

const char *
PeerChannel::whyGone() const {
    return peer_.life.died()                                   ? " is gone: its process has ended"
           : !peer_.life.alive() || !peer_.table.view().open() ? " has ended"
           : misbehaved_                                       ? " does not keep to the protocol and is left"
                                                               : " has closed the connection";
}

Status
PeerChannel::gone() const {
    return Status::error(NIXL_ERR_REMOTE_DISCONNECT, description_, whyGone());
}

void
PeerChannel::onSocket(std::uint32_t events) {
    if ((events & ~static_cast<std::uint32_t>(EPOLLIN | EPOLLOUT)) != 0) {
        breakOff(End::kPeer);
        return;
    }
    if ((events & EPOLLIN) != 0) {
        const Status status = readFrames();
        if (!status.ok()) {
            const bool closed = status.code() == NIXL_ERR_REMOTE_DISCONNECT;
            if (!closed)
                NIXL_LOG(kWarn, "LOCAL: the connection to ", description_, " is closed: ", status.message());
            breakOff(closed ? End::kPeer : End::kBadBytes);
            return;
        }
    }
    if ((events & EPOLLOUT) != 0)
        flushFromLoop();
}

/// After the handshake the peer answers heartbeats and speaks of its memory, of that only what it was asked
/// for.
Status
PeerChannel::readFrames() {
    const IoState io = reader_.readOnce(peer_.socket.get());
    if (io == IoState::kDone)
        heardFromPeer();
    Frame frame{};
    for (;;) {
        const auto complete = reader_.next(frame);
        if (!complete.ok())
            return complete.status();
        if (!complete.value())
            break;
        NIXL_RETURN_IF_ERROR(handle(frame));
    }
    return io == IoState::kClosed ? Status(NIXL_ERR_REMOTE_DISCONNECT, "the end of the stream") : Status();
}

Status
PeerChannel::handle(const Frame &frame) {
    if (frame.type == FrameType::kPong && frame.payload.empty())
        return {};
    if (frame.type == FrameType::kMemory) {
        // One read brings the descriptors of one frame, the last one in it; none is left from before.
        std::vector<ScopedFd> fds = std::exchange(reader_.fds, {});
        const auto piece = decodeMemory(frame.payload);
        if (!piece.ok())
            return piece.status();
        const std::size_t expected = piece.value().length > 0 ? 1 : 0;
        if (fds.size() != expected)
            return Status::error(NIXL_ERR_MISMATCH, "memory came with ", fds.size(),
                                 " descriptors instead of ", expected);
        return memory_.answered(piece.value(), expected > 0 ? std::move(fds.front()) : ScopedFd());
    }
    if (frame.type == FrameType::kMemoryEnded) {
        const auto id = decodeMemoryId(frame.payload);
        if (id.ok())
            memory_.ended(id.value());
        return id.status();
    }
    return Status::error(NIXL_ERR_MISMATCH, "a frame of type ", static_cast<unsigned>(frame.type),
                         " is not expected now");
}

Status
PeerChannel::askFor(std::uint64_t id, std::chrono::milliseconds patience) {
    if (!memory_.begin(id, PeerMemory::Clock::now() + patience))
        return {};
    const LockGuard lock(mutex_);
    return submit(encodeAskMemory(id), {}, false).status();
}

Result<std::shared_ptr<const PeerMapping>>
PeerChannel::mapping(std::uint64_t id, std::chrono::milliseconds patience) {
    return memory_.await(id, patience);
}

void
PeerChannel::breakOff(End end) {
    loop_.forgetFromLoop(peer_.socket.get());
    loop_.forgetFromLoop(peer_.pidfd.get());
    heartbeat_.removeFromLoop(this);
    std::deque<Outgoing> unsent;
    {
        const LockGuard lock(mutex_);
        if (end == End::kBadBytes)
            misbehaved_ = true;
        if (!broken_.exchange(true, std::memory_order_acq_rel)) {
            tellUndelivered(end);
            if (!closed_ && hooks_.changed)
                hooks_.changed(PeerChange::kLost, concat(description_, whyGone()));
        }
        unsent.swap(queue_);
        queuedBytes_ = 0;
    }
    memory_.close();
    room_.notifyAll();
    for (auto &message : unsent)
        if (message.sent)
            message.sent(gone());
}

/// In the order in which they were sent, each once. A message whose transfer waits for it is not told: the
/// end of the transfer says so.
void
PeerChannel::tellUndelivered(End end) {
    if (!hooks_.undelivered)
        return;
    dropConfirmed();
    const auto tell = [this](std::string frame, const std::string &why) {
        hooks_.undelivered(frame.erase(0, kHeaderBytes), why);
    };
    const std::string lost = concat(description_, whyGone(), "; it had not taken the message in");
    if (end != End::kClosed) {
        const std::string unknown = concat("the connection to ", description_,
                                           " was broken off; whether it takes the message in is not known");
        for (std::string &frame : unconfirmed_.takeAll())
            tell(std::move(frame), end == End::kPeer ? lost : unknown);
    }
    const std::string unsent =
        concat("the connection to ", description_, " was ended before the message was sent");
    for (Outgoing &outgoing : queue_)
        if (outgoing.message && !outgoing.sent)
            tell(std::move(outgoing.frame), end == End::kPeer ? lost : unsent);
}

void
PeerChannel::setStalled(bool &cause, bool holds, const char *how) {
    const bool before = unread_ || silent_;
    cause = holds;
    const bool stalled = unread_ || silent_;
    if (stalled == before || closed_ || broken_ || !hooks_.changed)
        return;
    hooks_.changed(stalled ? PeerChange::kStalled : PeerChange::kResumed, concat(description_, how));
}

void
PeerChannel::beatFromLoop() {
    if (!peer_.life.alive()) {
        breakOff(End::kPeer); // another program runs in its process, and a child of it keeps the socket
        return;
    }
    const LockGuard lock(mutex_);
    dropConfirmed();
    if (closed_ || peer_.revision < 1)
        return;
    if (asked_) {
        // One ping at a time: a peer that does not read makes no queue of them.
        if (++beatsAsked_ == kSilentBeats)
            setStalled(silent_, true,
                       peer_.slot != kNoSlot && table().waitsForRoom(peer_.slot)
                           ? " does not read its notifications"
                           : " does not answer: its process may be stopped");
        return;
    }
    if (!submit(frameHeader(FrameType::kPing, 0), {}, false).ok())
        return; // the socket or the pidfd tells
    asked_ = true;
    beatsAsked_ = 0;
}

/// Whatever it says, its control thread runs.
void
PeerChannel::heardFromPeer() {
    const LockGuard lock(mutex_);
    asked_ = false;
    setStalled(silent_, false, " answers again");
}

bool
PeerChannel::fits(std::size_t bytes) const {
    return queue_.empty() || queuedBytes_ + bytes <= kQueueBytes;
}

Result<bool>
PeerChannel::submit(std::string header, std::string_view payload, bool message, Sent sent, const void *who) {
    if (broken_ || closed_ || leaving_ || !peer_.life.alive())
        return gone();
    std::size_t done = 0;
    if (queue_.empty()) {
        const IoResult result = sendSome(peer_.socket.get(), std::array{std::string_view(header), payload});
        if (result.state == IoState::kClosed)
            return gone();
        done = result.bytes;
    }
    // What follows is done while the peer wakes up.
    dropConfirmed();
    std::string frame = std::move(header.append(payload));
    if (done == frame.size()) {
        if (message)
            keep(std::move(frame));
        return true;
    }
    queuedBytes_ += frame.size() - done;
    queue_.push_back({std::move(frame), done, message, std::move(sent), who});
    if (queue_.size() == 1)
        loop_.post([this] { flushFromLoop(); });
    return false;
}

/// Of a peer that does not count there would be no end of them.
void
PeerChannel::keep(std::string message) {
    if (peer_.slot == kNoSlot || !hooks_.undelivered)
        return;
    unconfirmed_.add(std::move(message));
    if (leaving_ || !unconfirmed_.tooMany(0))
        return;
    dropConfirmed();
    int unread = 0;
    if (::ioctl(peer_.socket.get(), SIOCOUTQ, &unread) != 0 || unread < 0)
        unread = 0;
    if (!unconfirmed_.tooMany(static_cast<std::uint64_t>(unread)))
        return;
    leaving_ = true;
    NIXL_LOG(kWarn, "LOCAL: the connection to ", description_,
             " is closed: it reads notifications and counts none of them");
    loop_.post([this] { breakOff(End::kBadBytes); });
}

void
PeerChannel::dropConfirmed() {
    if (peer_.slot != kNoSlot)
        unconfirmed_.confirm(table().takenIn(peer_.slot));
}

Status
PeerChannel::send(std::string_view message, std::chrono::milliseconds patience) {
    const LockGuard lock(mutex_);
    const bool room = room_.waitFor(
        mutex_, patience, [&]() NIXL_REQUIRES(mutex_) { return broken_ || closed_ || fits(message.size()); });
    if (!room) {
        setStalled(unread_, true, " does not read its notifications");
        return Status::error(NIXL_ERR_NOT_ALLOWED, description_,
                             " does not read its notifications: ", queuedBytes_, " bytes wait");
    }
    return submit(frameHeader(FrameType::kNotification, message.size()), message, true).status();
}

std::optional<Status>
PeerChannel::sendThen(std::string_view message, const void *who, Sent sent) {
    const LockGuard lock(mutex_);
    const bool room = fits(message.size());
    const auto all = submit(frameHeader(FrameType::kNotification, message.size()), message, true,
                            room ? nullptr : std::move(sent), who);
    if (all.ok() && !all.value() && !room)
        return std::nullopt;
    return all.status();
}

void
PeerChannel::sendFailure(std::string_view message, std::string_view why) {
    if (peer_.revision < 1)
        return;
    const LockGuard lock(mutex_);
    if (fits(message.size()))
        (void)submit(encodeFailed(message, why), {}, false);
}

PeerChannel::Withdrawal
PeerChannel::withdraw(const void *who, std::string_view why) {
    const LockGuard lock(mutex_);
    const auto found = std::find_if(queue_.begin(), queue_.end(), [who](const Outgoing &outgoing) {
        return outgoing.sent && outgoing.who == who;
    });
    if (found == queue_.end())
        return Withdrawal::kNotWaiting;
    if (found->done > 0) {
        found->sent = nullptr;
        return Withdrawal::kTooLate;
    }
    // Its bytes count until it is decided, so that withdrawn messages do not make up an endless queue.
    if (peer_.revision >= 1 && queuedBytes_ <= kQueueBytes) {
        queuedBytes_ -= found->frame.size();
        found->frame = encodeFailed(std::string_view(found->frame).substr(kHeaderBytes), why);
        found->message = false;
        found->sent = nullptr;
        queuedBytes_ += found->frame.size();
    } else {
        queuedBytes_ -= found->frame.size();
        queue_.erase(found);
    }
    room_.notifyAll();
    return Withdrawal::kDone;
}

/// Sends the messages at the head of the queue, many with one call. False: the socket takes no more now, or
/// there are none.
bool
PeerChannel::sendQueued(std::vector<Sent> &sent) {
    std::array<std::string_view, kSendParts> parts;
    const std::size_t count = std::min(queue_.size(), parts.size());
    for (std::size_t i = 0; i < count; ++i)
        parts[i] = std::string_view(queue_[i].frame).substr(queue_[i].done);
    if (count == 0)
        return false;
    const IoResult result = sendSome(peer_.socket.get(), std::span(parts.data(), count));
    if (result.state != IoState::kDone)
        return false;
    queuedBytes_ -= result.bytes;
    for (std::size_t left = result.bytes; left > 0;) {
        Outgoing &front = queue_.front();
        const std::size_t step = std::min(left, front.frame.size() - front.done);
        front.done += step;
        left -= step;
        if (front.done < front.frame.size())
            break;
        if (front.sent)
            sent.push_back(std::move(front.sent));
        if (front.message)
            keep(std::move(front.frame));
        queue_.pop_front();
    }
    return true;
}

void
PeerChannel::flushFromLoop() {
    std::vector<Sent> sent;
    bool empty = false;
    {
        const LockGuard lock(mutex_);
        while (!closed_ && !leaving_ && sendQueued(sent))
            setStalled(unread_, false, " reads its notifications again");
        empty = queue_.empty();
    }
    loop_.changeFromLoop(peer_.socket.get(), empty ? EPOLLIN | EPOLLRDHUP : EPOLLIN | EPOLLRDHUP | EPOLLOUT);
    room_.notifyAll();
    for (const auto &callback : sent)
        callback(Status());
}

void
PeerChannel::close(std::chrono::milliseconds patience) {
    {
        const LockGuard lock(mutex_);
        if (closed_)
            return;
        room_.waitFor(mutex_, patience, [this]() NIXL_REQUIRES(mutex_) { return broken_ || queue_.empty(); });
        closed_ = true;
    }
    loop_.call([this] { breakOff(End::kClosed); });
    shutdown(peer_.socket.get(), SHUT_RDWR);
}

} // namespace nixl::local
