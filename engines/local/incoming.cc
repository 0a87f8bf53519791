#include "engines/local/incoming.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "engines/local/listener.h"
#include "util/log.h"

namespace nixl::local {

namespace {

constexpr std::uint32_t kReading = EPOLLIN | EPOLLRDHUP;
/// Frames that wait for a peer which does not read: what it can have asked for, and the ends of that.
constexpr std::size_t kMostOutgoing = 2 * kMostLent;

} // namespace

Incoming::Incoming(Listener &owner, ScopedFd socket)
    : owner_(owner), loop_(owner.process().loop()), socket_(std::move(socket)) {}

Incoming::~Incoming() {
    loop_.cancelFromLoop(deadline_);
    loop_.forgetFromLoop(socket_.get());
    giveBackProof();
    if (slot_)
        owner_.endpoint().table.removeConnection(*slot_);
    if (accessor_) {
        loop_.forgetFromLoop(accessor_->pidfd());
        owner_.accessors().remove(accessor_.get());
    }
}

bool
Incoming::start() {
    deadline_ = loop_.afterFromLoop(owner_.settings().connectTimeout, [this] {
        refuse(Status(NIXL_ERR_BACKEND, "the handshake takes too long"));
    });
    return loop_.watchFromLoop(socket_.get(), kReading, [this](std::uint32_t events) { onSocket(events); })
        .ok();
}

void
Incoming::onSocket(std::uint32_t events) {
    if (state_ != State::kClosing) {
        if ((events & EPOLLOUT) != 0)
            flush();
        if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0)
            readFrames();
    } else if ((events & (EPOLLHUP | EPOLLERR)) != 0)
        owner_.finishedFromLoop(*this);
}

void
Incoming::onProcessEnd() {
    loop_.forgetFromLoop(accessor_->pidfd());
    ended_ = true;
    if (state_ == State::kClosing)
        owner_.finishedFromLoop(*this);
    else if (!paused_)
        readFrames();
}

void
Incoming::readFrames() {
    // One read per call, so that no peer keeps the loop for itself; but to the end of what a dead one left.
    do {
        const IoState io = reader_.readOnce(socket_.get());
        if (state_ != State::kGreeting)
            reader_.fds.clear();
        if (!handleAll())
            return;
        if (io == IoState::kClosed || (io == IoState::kAgain && ended_)) {
            owner_.finishedFromLoop(*this);
            return;
        }
    } while (ended_);
}

/// Works on the complete frames. False: the connection is paused or closing.
bool
Incoming::handleAll() {
    Frame frame{};
    for (;;) {
        const auto complete = reader_.next(frame);
        Status status = complete.status();
        if (status.ok()) {
            if (!complete.value())
                return true;
            status = handle(frame);
        }
        if (!status.ok()) {
            refuse(status);
            return false;
        }
        if (paused_)
            return false;
    }
}

Status
Incoming::handle(Frame &frame) {
    switch (frame.type) {
    case FrameType::kHello: {
        if (state_ != State::kGreeting)
            break;
        auto hello = decodeHello(frame.payload);
        return hello.ok() ? onHello(hello.value()) : hello.status();
    }
    case FrameType::kReady:
        if (state_ != State::kProving || !frame.payload.empty())
            break;
        loop_.cancelFromLoop(deadline_);
        giveBackProof();
        reader_.setLimit(owner_.settings().notifMaxBytes);
        state_ = State::kOpen;
        return {};
    case FrameType::kNotification:
        if (state_ != State::kOpen)
            break;
        if (!deliver(frame))
            waiting_ = std::move(frame);
        return {};
    case FrameType::kAskMemory: {
        if (state_ != State::kOpen)
            break;
        const auto id = decodeMemoryId(frame.payload);
        return id.ok() ? lend(id.value()) : id.status();
    }
    case FrameType::kPing:
        if (state_ != State::kOpen || !frame.payload.empty())
            break;
        return answerPing();
    case FrameType::kFailed:
        if (state_ != State::kOpen)
            break;
        return takeFailure(frame);
    default:
        break;
    }
    return Status::error(NIXL_ERR_MISMATCH, "a frame of type ", static_cast<unsigned>(frame.type),
                         " is not expected now");
}

Status
Incoming::onHello(const Hello &hello) {
    auto peer = peerCredentials(socket_.get());
    if (!peer.ok())
        return peer.status();
    if (peer.value().pid == 0)
        return Status::error(NIXL_ERR_BACKEND,
                             "your process is in another pid namespace (container) and cannot be "
                             "seen from this one");
    if (peer.value().uid != geteuid())
        return Status::error(NIXL_ERR_BACKEND, "you run as user ", peer.value().uid,
                             ", this process as user ", geteuid());
    if (hello.target != owner_.endpoint().incarnation)
        return Status::error(NIXL_ERR_MISMATCH, "you mean another incarnation");
    const auto proof = owner_.process().proofs().put(hello.challenge);
    if (!proof)
        return Status::error(NIXL_ERR_BACKEND, "too many handshakes at a time");
    proof_ = proof;
    NIXL_RETURN_IF_ERROR(admit(hello, std::move(peer).value()));
    sendWelcome(*proof);
    return {};
}

/// From here on the peer's marks count.
Status
Incoming::admit(const Hello &hello, PeerCredentials peer) {
    if (reader_.fds.size() != 2)
        return Status::error(NIXL_ERR_MISMATCH, "a hello brings 2 descriptors, not ", reader_.fds.size());
    auto marks = MarksView::map(reader_.fds[0].get());
    if (!marks.ok())
        return marks.status();
    auto life = LifeView::map(reader_.fds[1].get());
    if (!life.ok())
        return life.status();
    reader_.fds.clear();
    accessor_ = std::make_shared<Accessor>(hello.agent, peer.pid, std::move(peer.pidfd),
                                           std::move(marks).value(), std::move(life).value(), hello);
    owner_.accessors().add(accessor_);
    state_ = State::kProving;
    return loop_.watchFromLoop(accessor_->pidfd(), EPOLLIN, [this](std::uint32_t) { onProcessEnd(); });
}

void
Incoming::sendWelcome(std::uint64_t challengeAddress) {
    Welcome welcome;
    welcome.incarnation = owner_.endpoint().incarnation;
    welcome.agent = owner_.endpoint().agent;
    welcome.challengeAddress = challengeAddress;
    welcome.revision = accessor_->revision();
    if (welcome.revision > 0)
        slot_ = owner_.endpoint().table.addConnection();
    welcome.slot = slot_.value_or(kNoSlot);
    const std::string bytes = encodeWelcome(welcome);
    // The first bytes of a connection always fit; if the peer closed it, the next read tells.
    sendSome(socket_.get(), std::array{std::string_view(bytes)},
             std::array{owner_.endpoint().table.fd(), owner_.process().life().fd()});
}

Status
Incoming::lend(std::uint64_t id) {
    if (lent_.count(id) != 0 || lent_.size() >= kMostLent)
        return Status::error(NIXL_ERR_MISMATCH, "memory ", id, " is asked for ",
                             lent_.count(id) != 0 ? "twice" : "beyond the limit");
    auto memory = owner_.endpoint().lent.find(id);
    if (!memory)
        return say(encodeMemory({id, 0, 0, 0}), nullptr);
    lent_.insert(id);
    const LentPiece piece{id, memory->address(), memory->mappedBytes(), memory->offset()};
    return say(encodeMemory(piece), std::move(memory));
}

Status
Incoming::takeFailure(const Frame &frame) {
    auto failed = decodeFailed(frame.payload);
    if (!failed.ok())
        return failed.status();
    owner_.endpoint().inbox.pushFailure(
        {accessor_->agent(), std::move(failed.value().message), std::move(failed.value().why)});
    owner_.endpoint().signalActivity();
    return {};
}

/// Answers that wait in our queue say as much as one more would, so that pings do not make it grow.
Status
Incoming::answerPing() {
    return outgoing_.empty() ? say(frameHeader(FrameType::kPong, 0), nullptr) : Status();
}

void
Incoming::memoryEnded(std::uint64_t id) {
    if (state_ != State::kOpen || lent_.erase(id) == 0)
        return;
    if (const Status said = say(encodeMemoryEnded(id), nullptr); !said.ok())
        refuse(said);
}

Status
Incoming::say(std::string bytes, std::shared_ptr<const SealedMemory> memory) {
    if (outgoing_.size() >= kMostOutgoing)
        return Status::error(NIXL_ERR_MISMATCH, "you ask for memory and do not read the answers");
    outgoing_.push_back({std::move(bytes), std::move(memory)});
    if (outgoing_.size() == 1)
        flush();
    return {};
}

/// Sends what fits. A broken socket is told by the next read.
void
Incoming::flush() {
    while (!outgoing_.empty()) {
        Outgoing &front = outgoing_.front();
        const std::string_view rest = std::string_view(front.bytes).substr(front.done);
        const bool first = front.done == 0 && front.memory;
        const std::array fd{first ? front.memory->fd() : -1};
        const IoResult result = sendSome(socket_.get(), std::array{rest},
                                         first ? std::span<const int>(fd) : std::span<const int>());
        if (result.state == IoState::kAgain)
            break;
        front.done += result.bytes;
        if (result.state == IoState::kClosed || front.done == front.bytes.size())
            outgoing_.pop_front();
    }
    if (!paused_)
        loop_.changeFromLoop(socket_.get(), outgoing_.empty() ? kReading : kReading | EPOLLOUT);
}

/// False, and the connection paused, if the inbox is full.
bool
Incoming::deliver(Frame &frame) {
    if (!owner_.endpoint().inbox.push(accessor_->agent(), std::move(frame.payload))) {
        loop_.forgetFromLoop(socket_.get()); // an end of the stream would be reported again and again
        setPaused(true);
        return false;
    }
    // Behind the push: a process that is killed in between has not told of a message that nobody has.
    if (slot_)
        owner_.endpoint().table.countMessage(*slot_);
    owner_.endpoint().signalActivity();
    return true;
}

void
Incoming::setPaused(bool paused) {
    paused_ = paused;
    if (slot_)
        owner_.endpoint().table.setWaitsForRoom(*slot_, paused);
}

void
Incoming::resume() {
    if (!paused_)
        return;
    setPaused(false);
    Frame frame = std::move(*waiting_);
    waiting_.reset();
    if (!deliver(frame)) {
        waiting_ = std::move(frame);
        return;
    }
    const std::uint32_t wanted = outgoing_.empty() ? kReading : kReading | EPOLLOUT;
    if (!loop_.watchFromLoop(socket_.get(), wanted, [this](std::uint32_t events) { onSocket(events); })
             .ok()) {
        owner_.finishedFromLoop(*this);
        return;
    }
    if (handleAll() && ended_)
        readFrames();
}

void
Incoming::refuse(const Status &reason) {
    NIXL_LOG(kWarn, "LOCAL: agent '", owner_.endpoint().agent, "' closes the connection of ",
             accessor_ ? accessor_->description() : std::string("a peer"), ": ", reason.message());
    if (state_ == State::kGreeting || state_ == State::kProving) {
        const std::string bytes = encodeRefuse(reason.message());
        sendSome(socket_.get(), std::array{std::string_view(bytes)});
    }
    hangUp();
}

void
Incoming::hangUp() {
    if (state_ == State::kClosing)
        return;
    if (!accessor_ || ended_) {
        owner_.finishedFromLoop(*this);
        return;
    }
    loop_.cancelFromLoop(deadline_);
    state_ = State::kClosing;
    shutdown(socket_.get(), SHUT_WR);
    if (std::exchange(paused_, false))
        (void)loop_.watchFromLoop(socket_.get(), 0, [this](std::uint32_t events) { onSocket(events); });
    else
        loop_.changeFromLoop(socket_.get(), 0);
}

void
Incoming::giveBackProof() {
    if (proof_)
        owner_.process().proofs().giveBack(*proof_);
    proof_.reset();
}

} // namespace nixl::local
