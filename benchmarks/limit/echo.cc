#include "echo.h"

#include <csignal>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <stdexcept>

#include "memory.h"
#include "sockets.h"

namespace limit {

namespace {

using Message = std::uint64_t;

void
put(int socket, Message message) {
    writeAll(socket, reinterpret_cast<const std::byte *>(&message), sizeof(message));
}

// Polls until a message is there. A message is written whole, and so read whole. False: the other side has
// closed.
bool
poll(int socket, Message &message) {
    for (;;) {
        const ssize_t got = recv(socket, &message, sizeof(message), MSG_DONTWAIT);
        if (got == static_cast<ssize_t>(sizeof(message)))
            return true;
        if (got >= 0)
            return false;
        if (errno != EAGAIN)
            fail("read from the socket");
    }
}

[[noreturn]] void
serve(int socket) {
    Message count = 0;
    while (readAll(socket, reinterpret_cast<std::byte *>(&count), sizeof(count)))
        for (Message message = 0; count > 0; --count) {
            if (!poll(socket, message))
                _exit(0);
            put(socket, message);
        }
    _exit(0);
}

} // namespace

Echo::Echo(std::pair<int, int> sockets) : socket_(sockets.first), pid_(fork()) {
    if (pid_ < 0)
        fail("fork");
    if (pid_ == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(socket_);
        serve(sockets.second);
    }
    close(sockets.second);
}

Echo::~Echo() {
    close(socket_);
    waitpid(pid_, nullptr, 0);
}

void
Echo::trips(std::size_t count) const {
    put(socket_, count);
    for (Message message = 0; message < count; ++message) {
        Message answer = 0;
        put(socket_, message);
        if (!poll(socket_, answer) || answer != message)
            throw std::runtime_error("the echo is gone");
    }
}

} // namespace limit
