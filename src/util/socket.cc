#include "util/socket.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <thread>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace nixl {

namespace {

constexpr std::size_t kMaxFds = 4;

struct AbstractAddress {
    sockaddr_un address{};
    socklen_t size;

    explicit AbstractAddress(std::string_view name) {
        address.sun_family = AF_UNIX;
        const std::size_t count = std::min(name.size(), sizeof address.sun_path - 1);
        memcpy(address.sun_path + 1, name.data(), count);
        size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + count);
    }

    const sockaddr *
    get() const {
        return reinterpret_cast<const sockaddr *>(&address);
    }
};

Result<ScopedFd>
openSocket() {
    ScopedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.valid())
        return Status::error(NIXL_ERR_BACKEND, "cannot open a Unix socket: ", strerror(errno));
    return fd;
}

} // namespace

Result<ScopedFd>
listenAbstract(std::string_view name) {
    auto fd = openSocket();
    if (!fd.ok())
        return fd;
    const AbstractAddress address(name);
    if (bind(fd.value().get(), address.get(), address.size) != 0)
        return Status::error(NIXL_ERR_BACKEND, "cannot bind the socket '@", name, "': ", strerror(errno));
    if (listen(fd.value().get(), SOMAXCONN) != 0)
        return Status::error(NIXL_ERR_BACKEND, "cannot listen on '@", name, "': ", strerror(errno));
    return fd;
}

Result<ScopedFd>
connectAbstract(std::string_view name, std::chrono::steady_clock::time_point deadline) {
    auto fd = openSocket();
    if (!fd.ok())
        return fd;
    const AbstractAddress address(name);
    for (;;) {
        if (::connect(fd.value().get(), address.get(), address.size) == 0)
            return fd;
        if (errno == ECONNREFUSED)
            return Status::error(NIXL_ERR_NOT_FOUND, "nobody listens on '@", name, "'");
        if (errno != EAGAIN && errno != EINTR)
            return Status::error(NIXL_ERR_BACKEND, "cannot connect to '@", name, "': ", strerror(errno));
        // A full queue of a Unix socket cannot be polled for room.
        if (std::chrono::steady_clock::now() >= deadline)
            return Status::error(NIXL_ERR_CANCELED, "'@", name, "' accepts no connections");
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

Result<PeerCredentials>
peerCredentials(int socket) {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
        return Status::error(NIXL_ERR_BACKEND, "cannot tell who the peer is: ", strerror(errno));
    PeerCredentials peer{credentials.pid, credentials.uid, ScopedFd()};
    if (peer.pid <= 0) {
        peer.pid = 0;
        return peer;
    }
    int pidfd = -1;
    size = sizeof pidfd;
    // Newer kernels give the very process that connected; else the pid could already be another's.
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) != 0)
        pidfd = static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0));
    peer.pidfd = ScopedFd(pidfd);
    if (!peer.pidfd.valid() && (errno == ESRCH || errno == EINVAL))
        return Status::error(NIXL_ERR_NOT_FOUND, "process ", peer.pid, " has ended");
    if (!peer.pidfd.valid())
        return Status::error(NIXL_ERR_BACKEND, "no pidfd of process ", peer.pid, ": ", strerror(errno));
    pollfd ended{peer.pidfd.get(), POLLIN, 0};
    if (poll(&ended, 1, 0) > 0)
        return Status::error(NIXL_ERR_NOT_FOUND, "process ", peer.pid, " has ended");
    return peer;
}

IoResult
sendSome(int socket, std::span<const std::string_view> parts, std::span<const int> fds) {
    std::array<iovec, kSendParts> pieces;
    const std::size_t count = std::min(parts.size(), kSendParts);
    for (std::size_t i = 0; i < count; ++i)
        pieces[i] = {const_cast<char *>(parts[i].data()), parts[i].size()};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control{};
    if (!fds.empty()) {
        const std::size_t bytes = std::min(fds.size(), kMaxFds) * sizeof(int);
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(bytes);
        cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(header), fds.data(), bytes);
    }
    for (;;) {
        const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0)
            return {IoState::kDone, static_cast<std::size_t>(sent)};
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return {IoState::kAgain};
        if (errno != EINTR)
            return {IoState::kClosed};
    }
}

IoResult
receiveSome(int socket, void *data, std::size_t count, std::vector<ScopedFd> &fds) {
    iovec piece{data, count};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t got;
    do
        got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return {errno == EAGAIN || errno == EWOULDBLOCK ? IoState::kAgain : IoState::kClosed};
    for (cmsghdr *header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        const std::size_t bytes = header->cmsg_len - CMSG_LEN(0);
        for (std::size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
            fds.emplace_back(fd);
        }
    }
    if (got == 0)
        return {IoState::kClosed};
    return {IoState::kDone, static_cast<std::size_t>(got)};
}

bool
waitReady(int socket, short events, std::chrono::steady_clock::time_point deadline) {
    for (;;) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0)
            return false;
        pollfd entry{socket, events, 0};
        const int ready = poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
        if (ready > 0)
            return true;
    }
}

} // namespace nixl
