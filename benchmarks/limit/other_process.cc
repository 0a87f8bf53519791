#include "other_process.h"

#include <csignal>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "memory.h"
#include "sockets.h"

namespace limit {

namespace {

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
    const auto [here, there] = tcpSockets();
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
