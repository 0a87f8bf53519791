// A connection: the endpoint of one worker to one peer.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engines/ucx/worker.h"
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
    /// `address`: a checked worker address.
    Connection(ProgressWorker &worker, std::string peerName, std::string address, bool errorHandling);

    /// REQUIRES: closed.
    ~Connection() = default;

    /// The number of the present opening, opening one if there is none or the last broke.
    Result<std::uint64_t> open();

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
        return cutOff_.load(std::memory_order_relaxed) == opening;
    }

    /// Opens, and calls `done` (without locks) once the peer has answered or cannot be reached. Never fails:
    /// `done` tells. No lock is held.
    void greet(std::function<void(const Status &)> done);

    /// Has `lost` called, under the lock, when the peer has ended an opening and cannot be reached anew, or
    /// never could: it is gone. Whoever only closed its side, or ended it by force, is reached. Empty: nobody
    /// listens.
    void
    tellLost(std::function<void(const std::string &why)> lost) {
        peerLost_ = std::move(lost);
    }

    /// Tells that a message was lost; the next takeLost() returns why.
    void lose(Status why);
    Status takeLost();

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

    static void onError(void *connection, ucp_ep_h endpoint, ucs_status_t status);
    void breakWith(ucs_status_t status);
    void suspect(ucs_status_t status);
    void probed(const Status &answer);
    Status failed(ucs_status_t status, const std::string &words) const;

    ProgressWorker &worker_;
    const std::string peerName_;
    const std::string address_;
    const bool errorHandling_;
    ucp_ep_h endpoint_ = nullptr;
    std::uint64_t opening_ = 0;
    Status broken_;                        ///< of the present opening
    std::atomic<bool> stands_{false};      ///< there is an endpoint, and it is not broken
    std::atomic<std::uint64_t> cutOff_{0}; ///< number of the last opening that was
    std::function<void(const std::string &why)> peerLost_;
    bool probing_ = false;
    Status lost_;
};

} // namespace nixl::ucx
