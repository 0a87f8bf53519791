#include "engines/local/peer_channel.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>

namespace nixl::local {

namespace {

/// Bytes that may wait in the queue besides the message that is being sent.
constexpr std::size_t kQueueBytes = 16 << 20;

} // namespace

Result<std::shared_ptr<PeerChannel>>
PeerChannel::create(EventLoop &loop, Acquaintance peer, std::string agent) {
    std::shared_ptr<PeerChannel> channel(new PeerChannel(loop, std::move(peer), std::move(agent)));
    Status watched;
    loop.call([&] { watched = channel->watchFromLoop(); });
    if (!watched.ok())
        return watched;
    return channel;
}

PeerChannel::PeerChannel(EventLoop &loop, Acquaintance peer, std::string agent)
    : loop_(loop), peer_(std::move(peer)),
      description_(concat("agent '", agent, "' (process ", peer_.pid, ")")) {}

PeerChannel::~PeerChannel() {
    close(std::chrono::milliseconds(0));
}

Status
PeerChannel::watchFromLoop() {
    NIXL_RETURN_IF_ERROR(loop_.watchFromLoop(peer_.socket.get(), EPOLLIN | EPOLLRDHUP,
                                             [this](std::uint32_t events) { onSocket(events); }));
    // Ends of processes are told by the pidfd: a child that inherited the socket may keep it open.
    return loop_.watchFromLoop(peer_.pidfd.get(), EPOLLIN, [this](std::uint32_t) { breakOff(); });
}

Status
PeerChannel::gone() const {
    const char *how = peer_.life.died()                                   ? " is gone: its process has ended"
                      : !peer_.life.alive() || !peer_.table.view().open() ? " has ended"
                                                                          : " has closed the connection";
    return Status::error(NIXL_ERR_REMOTE_DISCONNECT, description_, how);
}

void
PeerChannel::onSocket(std::uint32_t events) {
    // After the handshake the peer sends nothing; what can be read is the end of the connection.
    if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0)
        breakOff();
    else
        flushFromLoop();
}

void
PeerChannel::breakOff() {
    loop_.forgetFromLoop(peer_.socket.get());
    loop_.forgetFromLoop(peer_.pidfd.get());
    std::deque<Outgoing> unsent;
    {
        const LockGuard lock(mutex_);
        broken_.store(true, std::memory_order_release);
        unsent.swap(queue_);
        queuedBytes_ = 0;
    }
    room_.notifyAll();
    for (auto &message : unsent)
        if (message.sent)
            message.sent(gone());
}

bool
PeerChannel::fits(std::size_t bytes) const {
    return queue_.empty() || queuedBytes_ + bytes <= kQueueBytes;
}

Status
PeerChannel::sendNow(std::string_view message, std::string &rest) {
    if (broken_ || closed_ || !peer_.life.alive())
        return gone();
    const std::string header = frameHeader(FrameType::kNotification, message.size());
    std::size_t done = 0;
    if (queue_.empty()) {
        const IoResult result = sendSome(peer_.socket.get(), std::array{std::string_view(header), message});
        if (result.state == IoState::kClosed)
            return gone();
        done = result.bytes;
    }
    if (done < header.size())
        rest = header.substr(done).append(message);
    else
        rest = message.substr(done - header.size());
    return {};
}

void
PeerChannel::queue(std::string rest, Sent sent) {
    queuedBytes_ += rest.size();
    queue_.push_back({std::move(rest), 0, std::move(sent)});
    if (queue_.size() == 1)
        loop_.post([this] { flushFromLoop(); });
}

Status
PeerChannel::send(std::string_view message, std::chrono::milliseconds patience) {
    const LockGuard lock(mutex_);
    const bool room = room_.waitFor(
        mutex_, patience, [&]() NIXL_REQUIRES(mutex_) { return broken_ || closed_ || fits(message.size()); });
    if (!room)
        return Status::error(NIXL_ERR_NOT_ALLOWED, description_,
                             " does not read its notifications: ", queuedBytes_, " bytes wait");
    std::string rest;
    NIXL_RETURN_IF_ERROR(sendNow(message, rest));
    if (!rest.empty())
        queue(std::move(rest), nullptr);
    return {};
}

void
PeerChannel::sendThen(std::string_view message, Sent sent) {
    Status result;
    {
        const LockGuard lock(mutex_);
        const bool room = fits(message.size());
        std::string rest;
        result = sendNow(message, rest);
        if (result.ok() && !rest.empty()) {
            if (!room) {
                queue(std::move(rest), std::move(sent));
                return;
            }
            queue(std::move(rest), nullptr);
        }
    }
    sent(result);
}

void
PeerChannel::flushFromLoop() {
    std::vector<Sent> sent;
    bool empty = false;
    {
        const LockGuard lock(mutex_);
        while (!queue_.empty() && !closed_) {
            Outgoing &front = queue_.front();
            const std::string_view rest = std::string_view(front.bytes).substr(front.done);
            const IoResult result = sendSome(peer_.socket.get(), std::array{rest});
            if (result.state != IoState::kDone)
                break;
            front.done += result.bytes;
            queuedBytes_ -= result.bytes;
            if (front.done < front.bytes.size())
                continue;
            if (front.sent)
                sent.push_back(std::move(front.sent));
            queue_.pop_front();
        }
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
    loop_.call([this] { breakOff(); });
    shutdown(peer_.socket.get(), SHUT_RDWR);
}

} // namespace nixl::local
