#include "other_process.h"

#include <arpa/inet.h>
#include <csignal>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "memory.h"

namespace limit {

namespace {

constexpr std::size_t kSocketWrite = std::size_t{1} << 20;

void
writeAll(int socket, const std::byte *data, std::size_t bytes) {
    while (bytes > 0) {
        const ssize_t written = write(socket, data, std::min(bytes, kSocketWrite));
        if (written <= 0)
            fail("write to the socket");
        data += written;
        bytes -= static_cast<std::size_t>(written);
    }
}

// False: the other side has closed.
bool
readAll(int socket, std::byte *data, std::size_t bytes) {
    while (bytes > 0) {
        const ssize_t got = read(socket, data, std::min(bytes, kSocketWrite));
        if (got < 0)
            fail("read from the socket");
        if (got == 0)
            return false;
        data += got;
        bytes -= static_cast<std::size_t>(got);
    }
    return true;
}

/// A TCP connection on loop-back as (here, there).
std::pair<int, int>
connectedSockets() {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto *generic = reinterpret_cast<sockaddr *>(&address);
    if (listener < 0 || bind(listener, generic, length) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, generic, &length) != 0)
        fail("listen on loop-back");
    const int here = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (here < 0 || connect(here, generic, length) != 0)
        fail("connect to loop-back");
    const int there = accept(listener, nullptr, nullptr);
    if (there < 0)
        fail("accept on loop-back");
    close(listener);
    const int on = 1;
    for (const int end : {here, there})
        setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return {here, there};
}

[[noreturn]] void
serve(int socket, std::byte *memory, std::size_t capacity) {
    std::uint64_t bytes = 0;
    const std::byte answer{1};
    while (readAll(socket, reinterpret_cast<std::byte *>(&bytes), sizeof(bytes)) && bytes <= capacity &&
           readAll(socket, memory, bytes))
        writeAll(socket, &answer, 1);
    _exit(0);
}

} // namespace

OtherProcess::OtherProcess(std::byte *own, std::byte *shared, std::size_t bytes) {
    const auto [here, there] = connectedSockets();
    socket_ = here;
    pid_ = fork();
    if (pid_ < 0)
        fail("fork");
    if (pid_ == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(here);
        std::memset(own, 2, bytes);
        std::memset(shared, 2, bytes);
        const double share = limit::hugeShare(own, bytes);
        writeAll(there, reinterpret_cast<const std::byte *>(&share), sizeof(share));
        serve(there, own, bytes);
    }
    close(there);
    if (!readAll(socket_, reinterpret_cast<std::byte *>(&hugeShare_), sizeof(hugeShare_)))
        throw std::runtime_error("the other process could not get its memory");
}

OtherProcess::~OtherProcess() {
    close(socket_);
    waitpid(pid_, nullptr, 0);
}

void
OtherProcess::send(const std::byte *data, std::uint64_t bytes) const {
    std::byte answer{};
    writeAll(socket_, reinterpret_cast<const std::byte *>(&bytes), sizeof(bytes));
    writeAll(socket_, data, bytes);
    if (!readAll(socket_, &answer, 1))
        throw std::runtime_error("the other process is gone");
}

} // namespace limit
