// A connection: the endpoint of one worker to one peer.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engines/ucx/knock.h"
#include "engines/ucx/outbox.h"
#include "engines/ucx/worker.h"
#include "util/fork_guard.h"
#include "util/status.h"

namespace nixl::ucx {

/// Opened at first use, and again after it broke: whoever works on it remembers which opening that was.
/// Everything REQUIRES the worker's lock, unless it says otherwise.
///
/// UCX 1.22 crashes if a put or get is posted to an endpoint that has failed. It tells of a failure from
/// within ucp_worker_progress or a post, by the error handler or by an error of an operation, whichever comes
/// first. So nothing is posted from within a callback, and after either of them nothing at all until the
/// endpoint is new.
class Connection : public std::enable_shared_from_this<Connection> {
public:
    /// `address`: a checked worker address; `sockets`: where it listens, see tcpAddresses().
    Connection(ProgressWorker &worker, std::string peerName, std::string address, bool errorHandling,
               std::vector<SocketAddress> sockets = {});

    /// Closes what is still open, after what is under way. REQUIRES: no lock of a worker.
    ~Connection();

    /// The number of the present opening, opening one if there is none or the last broke. Fails while it is
    /// being found out whether the peer is there, which this call may begin: judging() is true then, and who
    /// can wait tries again when it is not.
    Result<std::uint64_t> open();

    /// The peer's system has just answered.
    void
    seen() {
        seenAt_ = std::chrono::steady_clock::now();
    }

    /// Whether another opening can be tried without finding out first if the peer is there.
    bool mayOpen() const;

    /// Whether opening number `opening` still stands; if not, nothing may be posted to it.
    bool
    stands(std::uint64_t opening) const {
        return opening == opening_ && stands();
    }

    /// Whether the last opening stands. Any thread.
    bool
    stands() const {
        return stands_.load(std::memory_order_acquire);
    }

    /// REQUIRES: an opening stands.
    ucp_ep_h
    endpoint() const {
        return endpoint_;
    }

    /// Takes in that an operation of opening number `opening` ended with an error, and returns what that
    /// means for it. The opening stands no more, unless `posting`, the error is one of posting, is this
    /// side's alone: closing a healthy connection would leave the peer's transfers waiting for ever.
    Status report(std::uint64_t opening, ucs_status_t status, bool posting);

    /// Why the last opening does not stand.
    Status failure() const;

    /// Closes. With `force`, at once, and everything under way on it ends with an error; otherwise after what
    /// is under way, as the worker is driven on.
    void close(bool force);

    /// Ends opening number `opening` by force, if it is the present one: what is under way on it ends with an
    /// error. Does nothing without error handling, where UCX knows no force.
    void cutOff(std::uint64_t opening);

    /// Whether this side ended an opening by cutOff(). Any thread.
    bool
    wasCutOff(std::uint64_t opening) const {
        return opening != 0 && cutOff_.load(std::memory_order_relaxed) == opening;
    }

    // ---- Whether the peer is there ----

    /// By what the peer's answers find the connection: a number that a stranger cannot guess. Constant.
    std::uint64_t
    link() const {
        return link_;
    }

    /// Asks an engine of ours for an answer, opening the connection if need be. Nothing happens while UCX has
    /// not sent the last ping.
    void ping();

    /// The numbers of the last ping, and of the last that was answered. What was sent before a ping has been
    /// taken in by the peer's UCX when it answers.
    std::uint32_t
    pinged() const {
        return pinged_;
    }

    std::uint32_t
    ponged() const {
        return ponged_;
    }

    /// Whether UCX could not send the last ping yet.
    bool
    pinging() const {
        return pinging_ != nullptr;
    }

    /// The answer to a ping or a letter.
    void answered(const Pong &pong);

    /// An operation that needs the peer begins, and ends; `well`: the peer has done its part.
    void
    began() {
        ++underWay_;
    }

    void
    ended(bool well) {
        --underWay_;
        heard_ += well ? 1 : 0;
    }

    /// The peer has done something.
    void
    heard() {
        ++heard_;
    }

    struct Pulse {
        bool stands;
        bool broken;         ///< the last opening broke, and there is no other
        std::uint64_t heard; ///< counts what the peer did
        bool waits;          ///< for operations of UCX that need it
    };

    Pulse
    pulse() const {
        return {stands(), !broken_.ok(), heard_, underWay_ > 0};
    }

    /// Ends the present opening by force because the peer answers over another one: it has ended its side of
    /// this one. What is under way ends with NIXL_ERR_REMOTE_DISCONNECT; the next use opens another.
    void replace();

    /// The peer is lost, or nobody wants it any more: what is under way ends with `why`, letters included,
    /// and the connection is closed by force. It is of no use afterwards.
    void giveUp(const Status &why);

    /// Why it was given up; success if it was not.
    const Status &
    givenUp() const {
        return givenUp_;
    }

    /// Whether it is being found out if the peer is there. Until then nothing is opened.
    bool
    judging() const {
        return probing_;
    }

    /// Whether the end of the peer is noticed.
    bool
    errorHandling() const {
        return errorHandling_;
    }

    /// Calls `judged` (without locks, soon) once it is known whether the peer of an opening that broke is
    /// lost, or nobody can tell.
    void whenJudged(std::function<void(bool lost)> judged);

    /// Those who wait for a judgement that does not come in time are told that the peer is not known to be
    /// lost.
    void judgeLate(std::chrono::steady_clock::time_point now);

    // ---- Letters ----

    /// Of a connection to an engine of ours.
    Outbox &outbox();

    /// Asks for what the peer has taken in, if that is less than was sent. False: there is nothing to ask, or
    /// nobody; not without error handling, where the end of a peer that was asked is not noticed.
    bool
    askForLetters() {
        if (!errorHandling_ || !stands() || !outbox_ || !outbox_->unanswered())
            return false;
        ping();
        return true;
    }

    /// The worker's table has it while it is open or has letters.
    void leaveIfIdle();

    /// Who is told, under the lock, of letters that may not have arrived when the connection is given up.
    void
    tellUndelivered(Outbox::Undelivered undelivered) {
        undelivered_ = std::move(undelivered);
    }

    void
    undelivered(const std::string &payload, LetterKind kind, const std::string &why) const {
        if (undelivered_)
            undelivered_(peerName_, payload, kind, why);
    }

    /// Opens, and calls `done` (without locks) once the peer has answered or cannot be reached. Never fails:
    /// `done` tells. No lock is held.
    void greet(std::function<void(const Status &)> done);

    /// Has `lost` called, under the lock, when the peer has ended an opening and cannot be reached anew, or
    /// never could: it is gone. Whoever only closed its side, or ended it by force, is reached. Empty: nobody
    /// listens.
    void
    tellLost(std::function<void(const Status &why)> lost) {
        peerLost_ = std::move(lost);
    }

    ProgressWorker &
    worker() const {
        return worker_;
    }

    const std::string &
    peerName() const {
        return peerName_;
    }

    const std::string &
    address() const {
        return address_;
    }

    /// Names of the transports that UCX chose, as "tcp/eth0". REQUIRES: an opening stands.
    Result<std::vector<std::string>> transports() const;

    /// Microseconds that UCX expects for a message of `bytes`; nothing if it does not know. REQUIRES: an
    /// opening stands.
    std::optional<double> expectedUs(std::size_t bytes) const;

    /// Messages about packed blocks of the present opening that the peer has not answered.
    std::size_t packedUnderWay = 0;

    /// Bytes of messages that UCX has not taken over yet. Any thread.
    std::atomic<std::uint64_t> pendingBytes{0};

private:
    class Probe;
    class Judge;

    static void onError(void *connection, ucp_ep_h endpoint, ucs_status_t status);
    void breakWith(ucs_status_t status);
    void suspect(ucs_status_t status);
    void findOut();
    void probed(const Status &answer);
    void judge(bool lost);
    static void onPinged(void *request, ucs_status_t status, void *connection);
    Status failed(ucs_status_t status, const std::string &words) const;

    const ForkGuard guard_;
    ProgressWorker &worker_;
    const std::string peerName_;
    const std::string address_;
    const bool errorHandling_;
    const std::vector<SocketAddress> sockets_;
    ucp_ep_h endpoint_ = nullptr;
    std::uint64_t opening_ = 0;
    Status broken_;                        ///< of the present opening
    std::atomic<bool> stands_{false};      ///< there is an endpoint, and it is not broken
    std::atomic<std::uint64_t> cutOff_{0}; ///< number of the last opening that was
    Status givenUp_;
    std::function<void(const Status &why)> peerLost_;
    bool probing_ = false;
    std::chrono::steady_clock::time_point probingSince_{};
    std::chrono::steady_clock::time_point seenAt_{}; ///< the peer's system, last
    std::vector<std::function<void(bool lost)>> awaitJudgement_;
    const std::uint64_t link_;
    std::uint64_t heard_ = 0;
    std::size_t underWay_ = 0;
    std::uint32_t pinged_ = 0;
    std::uint32_t ponged_ = 0;
    std::shared_ptr<Connection> pinging_; ///< itself, while UCX sends a ping
    std::unique_ptr<Outbox> outbox_;
    Outbox::Undelivered undelivered_;
};

} // namespace nixl::ucx
