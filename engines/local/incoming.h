// One connection of a peer that wants to reach our memory or to tell us something.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "engines/local/accessors.h"
#include "engines/local/protocol.h"
#include "memory/sealed_memory.h"
#include "util/event_loop.h"
#include "util/scoped_fd.h"

namespace nixl::local {

class Listener;

/// A state machine on the loop of the process:
///
///   greeting --hello--> proving --ready--> open ---end of stream, end of the process---> over
///      |                   |                |
///      +-----deadline------+---bad bytes----+--> closing --peer closes, its process ends--> over
///
/// A peer may copy from "proving" on, and counts as an accessor until "over": it is told to stop by the end
/// of our stream, but only the end of its own says that it did.
class Incoming {
public:
    Incoming(Listener &owner, ScopedFd socket);
    ~Incoming();
    Incoming(const Incoming &) = delete;
    Incoming &operator=(const Incoming &) = delete;

    /// Starts to watch the socket. False: it cannot be watched.
    bool start();

    /// Goes on reading after the inbox had been full. May end the connection.
    void resume();

    /// Memory is lent no more: tells the peer, if it has it. May end the connection.
    void memoryEnded(std::uint64_t id);

    /// Takes no more from the peer and tells it that the engine has ended. May end the connection.
    void hangUp();

private:
    enum class State { kGreeting, kProving, kOpen, kClosing };

    void onSocket(std::uint32_t events);
    void onProcessEnd();
    void readFrames();
    bool handleAll();
    Status handle(Frame &frame);
    Status onHello(const Hello &hello);
    Status admit(const Hello &hello, PeerCredentials peer);
    void sendWelcome(std::uint64_t challengeAddress);
    bool deliver(Frame &frame);
    Status takeFailure(const Frame &frame);
    void setPaused(bool paused);
    Status lend(std::uint64_t id);
    Status answerPing();
    Status say(std::string bytes, std::shared_ptr<const SealedMemory> memory);
    void flush();
    void refuse(const Status &reason);
    void giveBackProof();

    Listener &owner_;
    EventLoop &loop_;
    const ScopedFd socket_;
    State state_ = State::kGreeting;
    FrameReader reader_;
    std::shared_ptr<Accessor> accessor_;
    std::optional<std::uint64_t> proof_; // address of the challenge
    std::optional<std::uint32_t> slot_;  // of this connection in the region table
    std::optional<Frame> waiting_;       // a message that the full inbox did not take

    /// What the socket has not taken yet; a descriptor goes with the first byte.
    struct Outgoing {
        std::string bytes;
        std::shared_ptr<const SealedMemory> memory;
        std::size_t done = 0;
    };

    std::deque<Outgoing> outgoing_;
    std::unordered_set<std::uint64_t> lent_; // memories that the peer has
    bool paused_ = false;
    bool ended_ = false; // the peer's process; what it sent before is still read
    EventLoop::TimerId deadline_ = 0;
};

} // namespace nixl::local
