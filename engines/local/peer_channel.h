// The connection to a peer in another process, from the initiator's side: leave to copy, and messages.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engines/local/handshake.h"
#include "engines/local/heartbeat.h"
#include "engines/local/peer_memory.h"
#include "engines/local/settings.h"
#include "util/event_loop.h"
#include "util/mutex.h"
#include "util/status.h"

namespace nixl::local {

/// Thread-safe. Once broken it stays so: the peer's process has ended or executed another program, or its
/// engine has ended.
class PeerChannel {
public:
    /// Called once: when the message is on its way, or with the error that prevents it. Runs on the loop or
    /// within the call that took it; no lock of the channel is held.
    using Sent = std::function<void(Status)>;

    /// What becomes of the peer. Called from any thread, with the lock of the channel held, so that it is
    /// told in its order; not after close().
    using Changed = std::function<void(PeerChange change, const std::string &why)>;

    /// `changed` may be empty.
    static Result<std::shared_ptr<PeerChannel>> create(EventLoop &loop, Heartbeat &heartbeat,
                                                       Acquaintance peer, std::string agent, Changed changed);

    ~PeerChannel();

    TableView
    table() const {
        return peer_.table.view();
    }

    MarkPage &
    marks() const {
        return peer_.marks.page();
    }

    pid_t
    pid() const {
        return peer_.pid;
    }

    /// For messages: "agent 'x' (process 7)".
    const std::string &
    description() const {
        return description_;
    }

    /// Whether the peer can still be reached: one load from its life page and one flag.
    bool
    alive() const {
        return !broken_.load(std::memory_order_acquire) && peer_.life.alive();
    }

    /// The error for everything that is wanted of a peer that is not alive. NIXL_ERR_REMOTE_DISCONNECT.
    Status gone() const;

    /// Sends a message after those before it. Waits, at most `patience`, while too much waits to be sent.
    /// NIXL_ERR_NOT_ALLOWED: the peer did not read in that time.
    Status send(std::string_view message, std::chrono::milliseconds patience);

    /// Sends a message after those before it, without waiting. "On its way" is in the socket, or in our queue
    /// while that is short.
    void sendThen(std::string_view message, Sent sent);

    /// Asks the peer for memory that its table names, unless that was done. The peer has `patience` to
    /// answer.
    Status askFor(std::uint64_t id, std::chrono::milliseconds patience);

    /// Memory that was asked for, mapped. Waits for the answer within the time the peer has, at most
    /// `patience`. An error says why it is not mapped.
    Result<std::shared_ptr<const PeerMapping>> mapping(std::uint64_t id, std::chrono::milliseconds patience);

    /// Ends the connection; messages on their way get `patience` to leave. The peer then knows that we copy
    /// no more. REQUIRES: no copy is under way or follows.
    void close(std::chrono::milliseconds patience);

private:
    struct Outgoing {
        std::string bytes;
        std::size_t done = 0;
        Sent sent;
    };

    PeerChannel(EventLoop &loop, Heartbeat &heartbeat, Acquaintance peer, std::string agent, Changed changed);

    Status watchFromLoop();
    void onSocket(std::uint32_t events);
    void flushFromLoop();
    bool sendQueued(std::vector<Sent> &sent) NIXL_REQUIRES(mutex_);
    Status readFrames();
    Status handle(const Frame &frame);
    void breakOff();
    const char *whyGone() const;
    void beatFromLoop();
    void heardFromPeer();
    /// The peer is stalled while one of the causes holds: `unread_`, `silent_`.
    void setStalled(bool &cause, bool holds, const char *how) NIXL_REQUIRES(mutex_);
    /// Sends what fits now; `rest` is what does not. NIXL_ERR_REMOTE_DISCONNECT: the channel is at its end.
    Status sendNow(std::string_view header, std::string_view payload, std::string &rest)
        NIXL_REQUIRES(mutex_);
    void queue(std::string rest, Sent sent) NIXL_REQUIRES(mutex_);
    bool fits(std::size_t bytes) const NIXL_REQUIRES(mutex_);

    EventLoop &loop_;
    Heartbeat &heartbeat_;
    const Acquaintance peer_;
    const std::string description_;
    const Changed changed_;
    std::atomic<bool> broken_{false};
    PeerMemory memory_;
    FrameReader reader_; // of the loop

    Mutex mutex_;
    ConditionVariable room_; // the queue became shorter, or the channel broke
    std::deque<Outgoing> queue_ NIXL_GUARDED_BY(mutex_);
    std::size_t queuedBytes_ NIXL_GUARDED_BY(mutex_) = 0;
    bool closed_ NIXL_GUARDED_BY(mutex_) = false;
    bool unread_ NIXL_GUARDED_BY(mutex_) = false; // it did not read in time, and has not since
    bool silent_ NIXL_GUARDED_BY(mutex_) = false; // it did not answer in time, and has not since
    bool asked_ NIXL_GUARDED_BY(mutex_) = false;  // a ping is on its way, and nothing came since
    int beatsAsked_ NIXL_GUARDED_BY(mutex_) = 0;  // that passed since then
};

} // namespace nixl::local
