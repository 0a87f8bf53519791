// The connection to a peer in another process, from the initiator's side: leave to copy, and messages.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engines/local/handshake.h"
#include "engines/local/heartbeat.h"
#include "engines/local/peer_memory.h"
#include "engines/local/settings.h"
#include "engines/local/unconfirmed.h"
#include "util/event_loop.h"
#include "util/mutex.h"
#include "util/status.h"

namespace nixl::local {

/// Thread-safe. Once broken it stays so: the peer's process has ended or executed another program, or its
/// engine has ended.
class PeerChannel {
public:
    /// Called once: when the message is on its way, or with the error that prevents it. Runs on the loop; no
    /// lock of the channel is held.
    using Sent = std::function<void(Status)>;

    /// Called from any thread, with the lock of the channel held, so that things are told in their order;
    /// not after close() has returned. May be empty.
    struct Hooks {
        /// What becomes of the peer. Not while close() is under way.
        std::function<void(PeerChange change, const std::string &why)> changed;
        /// A message that was taken and that the peer has not taken in, or of which that is not known. Those
        /// of a peer that is lost are told before its loss.
        std::function<void(std::string message, const std::string &why)> undelivered;
    };

    static Result<std::shared_ptr<PeerChannel>> create(EventLoop &loop, Heartbeat &heartbeat,
                                                       Acquaintance peer, std::string agent, Hooks hooks);

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

    /// Sends a message after those before it; it is told as undelivered if the peer does not take it in.
    /// Waits, at most `patience`, while too much waits to be sent. NIXL_ERR_NOT_ALLOWED: the peer did not
    /// read in that time.
    Status send(std::string_view message, std::chrono::milliseconds patience);

    /// Sends a message after those before it, without waiting: the outcome, or nullopt if the message has to
    /// wait; `sent` is called then, and only then. "On its way" is in the socket, or in our queue while that
    /// is short; from then on as with send(). `who` names the message for withdraw().
    std::optional<Status> sendThen(std::string_view message, const void *who, Sent sent);

    /// Tells the peer that a transfer failed whose message does not come, after the messages before it. Waits
    /// for nothing; dropped if there is no room or the peer is gone.
    void sendFailure(std::string_view message, std::string_view why);

    enum class Withdrawal {
        kDone,       ///< nothing of it is sent, and `sent` is not called
        kTooLate,    ///< a part of it is sent, so all of it is on its way; `sent` is not called
        kNotWaiting, ///< `sent` was called, or is about to be
    };

    /// Takes back a message that has to wait; the peer is told in its place that the transfer failed, as with
    /// sendFailure().
    Withdrawal withdraw(const void *who, std::string_view why);

    /// Asks the peer for memory that its table names, unless that was done. The peer has `patience` to
    /// answer.
    Status askFor(std::uint64_t id, std::chrono::milliseconds patience);

    /// Memory that was asked for, mapped. Waits for the answer within the time the peer has, at most
    /// `patience`. An error says why it is not mapped.
    Result<std::shared_ptr<const PeerMapping>> mapping(std::uint64_t id, std::chrono::milliseconds patience);

    /// Ends the connection; messages on their way get `patience` to leave, and those that do not are told as
    /// undelivered. The peer still reads what is in the socket, and then knows that we copy no more.
    /// REQUIRES: no copy is under way or follows.
    void close(std::chrono::milliseconds patience);

private:
    struct Outgoing {
        std::string frame;
        std::size_t done = 0; ///< bytes that are in the socket
        bool message = false;
        Sent sent; ///< of a transfer that is not done before
        const void *who = nullptr;
    };

    /// What ended a connection.
    enum class End {
        kPeer,     ///< it ended, or closed: it takes in no more
        kBadBytes, ///< this side, because of what it read: the peer still reads what is in the socket
        kClosed,   ///< close()
    };

    PeerChannel(EventLoop &loop, Heartbeat &heartbeat, Acquaintance peer, std::string agent, Hooks hooks);

    Status watchFromLoop();
    void onSocket(std::uint32_t events);
    void flushFromLoop();
    bool sendQueued(std::vector<Sent> &sent) NIXL_REQUIRES(mutex_);
    Status readFrames();
    Status handle(const Frame &frame);
    void breakOff(End end);
    void tellUndelivered(End end) NIXL_REQUIRES(mutex_);
    const char *whyGone() const;
    void beatFromLoop();
    void heardFromPeer();
    /// The peer is stalled while one of the causes holds: `unread_`, `silent_`.
    void setStalled(bool &cause, bool holds, const char *how) NIXL_REQUIRES(mutex_);
    /// Sends a frame, or what fits now, and queues the rest. True: all of it is in the socket, and `sent` is
    /// not called. NIXL_ERR_REMOTE_DISCONNECT: the channel is at its end.
    Result<bool> submit(std::string header, std::string_view payload, bool message, Sent sent = {},
                        const void *who = nullptr) NIXL_REQUIRES(mutex_);
    void keep(std::string message) NIXL_REQUIRES(mutex_);
    void dropConfirmed() NIXL_REQUIRES(mutex_);
    bool fits(std::size_t bytes) const NIXL_REQUIRES(mutex_);

    EventLoop &loop_;
    Heartbeat &heartbeat_;
    const Acquaintance peer_;
    const std::string description_;
    const Hooks hooks_;
    std::atomic<bool> broken_{false};
    std::atomic<bool> misbehaved_{false}; // of a broken one: this side has left it
    PeerMemory memory_;
    FrameReader reader_; // of the loop

    Mutex mutex_;
    ConditionVariable room_;                          // the queue became shorter, or the channel broke
    Unconfirmed unconfirmed_ NIXL_GUARDED_BY(mutex_); // as frames
    std::deque<Outgoing> queue_ NIXL_GUARDED_BY(mutex_);
    std::size_t queuedBytes_ NIXL_GUARDED_BY(mutex_) = 0;
    bool closed_ NIXL_GUARDED_BY(mutex_) = false;
    bool leaving_ NIXL_GUARDED_BY(mutex_) = false; // it will be broken off
    bool unread_ NIXL_GUARDED_BY(mutex_) = false;  // it did not read in time, and has not since
    bool silent_ NIXL_GUARDED_BY(mutex_) = false;  // it did not answer in time, and has not since
    bool asked_ NIXL_GUARDED_BY(mutex_) = false;   // a ping is on its way, and nothing came since
    int beatsAsked_ NIXL_GUARDED_BY(mutex_) = 0;   // that passed since then
};

} // namespace nixl::local
