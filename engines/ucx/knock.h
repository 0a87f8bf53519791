// Whether the system of a peer answers, when the peer itself does not.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "util/scoped_fd.h"
#include "util/status.h"

namespace nixl::ucx {

/// An address to knock at.
struct SocketAddress {
    sockaddr_storage bytes{};
    socklen_t length = 0;
};

/// The addresses at which the worker of `address` listens for connections over TCP, as UCX packs them; those
/// of the loopback device only if `own`, an address of this process, has the same, that is, on the same host.
/// REQUIRES: checkWorkerAddress() accepted both.
std::vector<SocketAddress> tcpAddresses(std::string_view address, std::string_view own);

/// Connects to the port at which a peer's UCX listens, and to nothing behind it. While the process exists,
/// also if it is stopped, its system answers; when the process has ended, the system refuses; when the system
/// or the network is gone, nobody answers. Not thread-safe; never blocks.
class Knock {
public:
    using Clock = std::chrono::steady_clock;

    enum class Answer {
        kNone,    ///< not yet
        kThere,   ///< the process exists
        kRefused, ///< it has ended
        kSilent,  ///< nobody answers
    };

    /// For a peer of which nothing else is known: as long as one that was connected is silent, all in all,
    /// until it is lost (liveness.cc).
    static constexpr std::chrono::milliseconds kSilence{4000};

    /// Who waits for an answer knows it by then, unless nobody looks in time.
    static constexpr std::chrono::milliseconds kPatience = kSilence + std::chrono::seconds(2);

    /// `silence`: how long nobody has to answer to count as silent.
    explicit Knock(std::vector<SocketAddress> addresses, std::chrono::milliseconds silence = kSilence)
        : addresses_(std::move(addresses)), silence_(silence) {}

    /// Goes on, and says what is known. To be called a few times a second.
    Answer look(Clock::time_point now);

private:
    struct Attempt {
        ScopedFd socket;
        std::size_t address;
    };

    bool begin(std::size_t address);
    bool established();

    const std::vector<SocketAddress> addresses_;
    const std::chrono::milliseconds silence_;
    std::vector<Attempt> attempts_; ///< that have not been answered
    std::vector<bool> refused_;     ///< by address, by the last answer
    ScopedFd connected_;
    Clock::time_point since_{}; ///< of the first attempt, or the last time that somebody answered
    Clock::time_point looked_{};
    Clock::time_point nextAttempt_{};
};

/// NIXL_ERR_REMOTE_DISCONNECT for kRefused and kSilent.
Status gone(const std::string &agent, Knock::Answer answer);

} // namespace nixl::ucx
