// Unix stream sockets in the abstract namespace: listening, connecting, who is at the other end, descriptors.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "util/scoped_fd.h"
#include "util/status.h"

namespace nixl {

/// A non-blocking socket that listens under an abstract name (at most 100 bytes, without the leading NUL).
Result<ScopedFd> listenAbstract(std::string_view name);

/// Connects to an abstract name; the socket is non-blocking. Waits until `deadline` if the listener's queue
/// is full. NIXL_ERR_NOT_FOUND: nobody listens there; NIXL_ERR_CANCELED: the deadline passed.
Result<ScopedFd> connectAbstract(std::string_view name, std::chrono::steady_clock::time_point deadline);

/// The process at the other end of a connected socket, as the kernel knows it.
struct PeerCredentials {
    pid_t pid;      ///< 0: not visible in our pid namespace
    uid_t uid;      ///< as seen in our user namespace
    ScopedFd pidfd; ///< becomes readable when the process has ended; invalid if pid is 0
};

/// NIXL_ERR_NOT_FOUND: the process has ended.
Result<PeerCredentials> peerCredentials(int socket);

/// How a read or write on a non-blocking socket ended.
enum class IoState {
    kDone,   ///< moved `bytes`
    kAgain,  ///< nothing can be moved now
    kClosed, ///< the other end is closed, or the connection broke
};

struct IoResult {
    IoState state;
    std::size_t bytes = 0;
};

/// Most parts that one call sends.
inline constexpr std::size_t kSendParts = 64;

/// Sends as much of the parts, one after the other, as fits now; with `fds` (at most 4), they go with the
/// first byte. Never raises SIGPIPE.
IoResult sendSome(int socket, std::span<const std::string_view> parts, std::span<const int> fds = {});

/// Receives what is there, at most `count` bytes. Descriptors that came along are appended to `fds`, those
/// beyond 4 are closed.
IoResult receiveSome(int socket, void *data, std::size_t count, std::vector<ScopedFd> &fds);

/// Waits until the socket is ready for `events` (POLLIN, POLLOUT). False: the deadline passed.
bool waitReady(int socket, short events, std::chrono::steady_clock::time_point deadline);

} // namespace nixl
