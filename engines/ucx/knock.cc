#include "engines/ucx/knock.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "engines/ucx/address_check.h"

namespace nixl::ucx {

namespace {

/// How often an attempt is begun, and how many of an address stand beside each other: a network may lose
/// some.
constexpr std::chrono::milliseconds kEvery{400};
constexpr int kMostAttempts = 2;
/// Of a peer's addresses so many are tried.
constexpr std::size_t kMostAddresses = 8;
/// A connection that stands says so until its system has not answered for this long.
constexpr int kProbeSeconds = 1;
constexpr int kProbes = 3;

void
watchConnection(int socket) {
    const auto set = [&](int level, int name, int value) {
        (void)::setsockopt(socket, level, name, &value, sizeof value);
    };
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, kProbeSeconds);
    set(IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
    set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

/// UCX's flag of a device address that means the loopback device: what follows tells the host apart.
constexpr char kLoopback = 1;

/// A device address is flags, family, and the IP address.
std::optional<SocketAddress>
addressOf(const TcpInterface &interface, const std::vector<TcpInterface> &own) {
    constexpr std::size_t kHead = 2;
    if (interface.device.size() < kHead || interface.interface.size() < sizeof(in_port_t))
        return std::nullopt;
    const bool loopback = (interface.device[0] & kLoopback) != 0;
    const int family = static_cast<unsigned char>(interface.device[1]);
    const std::string_view ip = interface.device.substr(kHead);
    in_port_t port = 0;
    std::memcpy(&port, interface.interface.data(), sizeof port);
    const auto same = [&](const TcpInterface &other) { return other.device == interface.device; };
    if (loopback && std::none_of(own.begin(), own.end(), same))
        return std::nullopt;
    SocketAddress address;
    if (family == AF_INET && (loopback || ip.size() == sizeof(in_addr))) {
        auto &in = reinterpret_cast<sockaddr_in &>(address.bytes);
        in.sin_family = AF_INET;
        in.sin_port = port;
        in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (!loopback)
            std::memcpy(&in.sin_addr, ip.data(), ip.size());
        address.length = sizeof in;
    } else if (family == AF_INET6 && (loopback || ip.size() == sizeof(in6_addr))) {
        auto &in = reinterpret_cast<sockaddr_in6 &>(address.bytes);
        in.sin6_family = AF_INET6;
        in.sin6_port = port;
        in.sin6_addr = in6addr_loopback;
        if (!loopback)
            std::memcpy(&in.sin6_addr, ip.data(), ip.size());
        address.length = sizeof in;
    } else {
        return std::nullopt;
    }
    return address;
}

int
errorOf(int socket) {
    int error = 0;
    socklen_t length = sizeof error;
    return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

} // namespace

std::vector<SocketAddress>
tcpAddresses(std::string_view address, std::string_view own) {
    const auto ours = tcpInterfaces(own);
    std::vector<SocketAddress> found;
    for (const TcpInterface &interface : tcpInterfaces(address)) {
        if (found.size() == kMostAddresses)
            break;
        if (const auto one = addressOf(interface, ours))
            found.push_back(*one);
    }
    return found;
}

/// False: this process, or its system, has no means for it.
bool
Knock::begin(std::size_t address) {
    const SocketAddress &to = addresses_[address];
    ScopedFd socket(::socket(to.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.valid())
        return false;
    const int rc = ::connect(socket.get(), reinterpret_cast<const sockaddr *>(&to.bytes), to.length);
    if (rc != 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == EADDRNOTAVAIL))
        return false;
    if (rc != 0 && errno != EINPROGRESS) {
        refused_[address] = errno == ECONNREFUSED;
        return true;
    }
    const auto same = [address](const Attempt &attempt) { return attempt.address == address; };
    if (std::count_if(attempts_.begin(), attempts_.end(), same) >= kMostAttempts)
        attempts_.erase(std::find_if(attempts_.begin(), attempts_.end(), same));
    attempts_.push_back({std::move(socket), address});
    return true;
}

/// Whether one of the attempts has become a connection; those that failed are over.
bool
Knock::established() {
    for (auto attempt = attempts_.begin(); attempt != attempts_.end();) {
        pollfd look{attempt->socket.get(), POLLOUT, 0};
        if (::poll(&look, 1, 0) == 0) {
            ++attempt;
            continue;
        }
        const int error = errorOf(attempt->socket.get());
        if (error == 0) {
            connected_ = std::move(attempt->socket);
            watchConnection(connected_.get());
            attempts_.clear();
            return true;
        }
        refused_[attempt->address] = error == ECONNREFUSED;
        attempt = attempts_.erase(attempt);
    }
    return false;
}

Knock::Answer
Knock::look(Clock::time_point now) {
    if (addresses_.empty())
        return Answer::kThere; // nothing speaks against it
    if (since_ == Clock::time_point()) {
        since_ = looked_ = now;
        refused_.assign(addresses_.size(), false);
    }
    // Only attempts show silence, and none is begun while nobody looks.
    if (const auto pause = now - std::exchange(looked_, now); pause > kEvery)
        since_ += pause - kEvery;
    if (connected_.valid()) {
        pollfd look{connected_.get(), POLLRDHUP, 0};
        if (::poll(&look, 1, 0) == 0) {
            since_ = now;
            return Answer::kThere;
        }
        connected_.reset();
        nextAttempt_ = now;
    }
    if (established()) {
        since_ = now;
        return Answer::kThere;
    }
    if (now >= nextAttempt_) {
        nextAttempt_ = now + kEvery;
        std::fill(refused_.begin(), refused_.end(), false);
        bool begun = false;
        for (std::size_t i = 0; i < addresses_.size(); ++i)
            begun |= begin(i);
        if (!begun)
            since_ = now; // nobody was asked
        if (established())
            return Answer::kThere;
    }
    if (std::find(refused_.begin(), refused_.end(), false) == refused_.end())
        return Answer::kRefused;
    return now - since_ >= silence_ ? Answer::kSilent : Answer::kNone;
}

Status
gone(const std::string &agent, Knock::Answer answer) {
    return Status::error(NIXL_ERR_REMOTE_DISCONNECT, "agent '", agent, "' is gone: ",
                         answer == Knock::Answer::kRefused ? "its process has ended"
                                                           : "its host does not answer");
}

} // namespace nixl::ucx
