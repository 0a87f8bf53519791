#include "sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "memory.h"

namespace limit {

namespace {

constexpr std::size_t kSocketWrite = std::size_t{1} << 20;

} // namespace

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

std::pair<int, int>
tcpSockets() {
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

std::pair<int, int>
unixSockets() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        fail("socketpair");
    return {ends[0], ends[1]};
}

} // namespace limit
