#include "engines/local/host_copy.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

namespace nixl::local {

namespace {

std::atomic<std::uint64_t> calls{0};

ssize_t
callKernel(pid_t pid, nixl_xfer_op_t operation, std::span<const iovec> local, std::span<const iovec> remote) {
    calls.fetch_add(1, std::memory_order_relaxed);
    const auto call = operation == NIXL_WRITE ? process_vm_writev : process_vm_readv;
    return call(pid, local.data(), local.size(), remote.data(), remote.size(), 0);
}

/// Has the first bytes of a piece brought into the cache, from where the processor goes on by itself.
template<int kForWriting>
void
prefetch(const iovec &piece) {
    constexpr std::size_t kLine = 64;
    constexpr std::size_t kFirst = 512;
    const auto *bytes = static_cast<const char *>(piece.iov_base);
    for (std::size_t at = 0; at < std::min(piece.iov_len, kFirst); at += kLine)
        __builtin_prefetch(bytes + at, kForWriting);
}

/// Scattered pieces are in no cache as a rule; those that follow are fetched while one is copied.
void
copyWithin(nixl_xfer_op_t operation, std::span<const iovec> local, std::span<const iovec> remote) {
    constexpr std::size_t kAhead = 4;
    const std::span<const iovec> from = operation == NIXL_WRITE ? local : remote;
    const std::span<const iovec> to = operation == NIXL_WRITE ? remote : local;
    for (std::size_t i = 0; i < from.size(); ++i) {
        if (i + kAhead < from.size()) {
            prefetch<0>(from[i + kAhead]);
            prefetch<1>(to[i + kAhead]);
        }
        std::memmove(to[i].iov_base, from[i].iov_base, from[i].iov_len);
    }
}

bool
readable(pid_t pid, void *address) {
    char byte;
    iovec to{&byte, 1};
    iovec from{address, 1};
    return process_vm_readv(pid, &to, 1, &from, 1, 0) == 1;
}

/// Which of two addresses a copy failed at: the source if it cannot be read, else the destination.
bool
remoteFaulted(pid_t pid, nixl_xfer_op_t operation, void *local, void *remote) {
    return operation == NIXL_WRITE ? readable(getpid(), local) : !readable(pid, remote);
}

/// Whether something is mapped there, readable or not.
bool
mapped(std::uint64_t address) {
    static const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    unsigned char resident = 0;
    return mincore(reinterpret_cast<void *>(address - address % page), 1, &resident) == 0;
}

void
advance(iovec &piece, std::size_t bytes) {
    piece.iov_base = static_cast<char *>(piece.iov_base) + bytes;
    piece.iov_len -= bytes;
}

} // namespace

std::optional<CopyFault>
copyPieces(pid_t pid, nixl_xfer_op_t operation, std::span<iovec> local, std::span<iovec> remote) {
    if (pid == 0) {
        copyWithin(operation, local, remote);
        return std::nullopt;
    }
    std::size_t piece = 0;
    std::size_t offset = 0; // within the first piece that is left
    while (piece < local.size()) {
        if (local[piece].iov_len == 0) {
            ++piece;
            offset = 0;
            continue;
        }
        const ssize_t copied = callKernel(pid, operation, local.subspan(piece), remote.subspan(piece));
        if (copied < 0 && errno == EINTR)
            continue;
        if (copied <= 0) {
            CopyFault fault{piece, offset, copied < 0 ? errno : EFAULT};
            if (fault.error == EFAULT)
                fault.remoteSide =
                    remoteFaulted(pid, operation, local[piece].iov_base, remote[piece].iov_base);
            return fault;
        }
        // Less than asked for: the next call starts at the piece that failed and tells the error.
        for (auto left = static_cast<std::size_t>(copied); left > 0 && piece < local.size();) {
            const std::size_t step = std::min(left, local[piece].iov_len);
            advance(local[piece], step);
            advance(remote[piece], step);
            left -= step;
            offset += step;
            if (local[piece].iov_len == 0) {
                ++piece;
                offset = 0;
            }
        }
    }
    return std::nullopt;
}

std::optional<std::uint64_t>
unreachableEnd(std::uint64_t address, std::uint64_t length) {
    const std::uint64_t last = address + (length - 1);
    if (last < address)
        return last;
    std::array<char, 2> bytes{};
    iovec to{bytes.data(), bytes.size()};
    const std::array<iovec, 2> from{iovec{reinterpret_cast<void *>(address), 1},
                                    iovec{reinterpret_cast<void *>(last), 1}};
    const ssize_t got = process_vm_readv(getpid(), &to, 1, from.data(), from.size(), 0);
    if (got == 2)
        return std::nullopt;
    if (got == 1)
        return last;
    if (got == 0 || errno == EFAULT)
        return address;
    if (!mapped(address))
        return address;
    return mapped(last) ? std::nullopt : std::optional(last);
}

std::optional<std::uint64_t>
unwritableEnd(std::uint64_t address, std::uint64_t length) {
    const auto denied = [](std::uint64_t at) {
        // An atomic addition of 0 by the kernel, which fails where a store would fault.
        constexpr std::uint64_t kWord = sizeof(std::uint32_t);
        auto *word = reinterpret_cast<std::uint32_t *>(at / kWord * kWord);
        std::uint32_t own = 0;
        return syscall(SYS_futex, &own, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, nullptr, word,
                       FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_LT, 0)) < 0 &&
               errno == EFAULT;
    };
    const std::uint64_t last = address + (length - 1);
    if (denied(address))
        return address;
    return denied(last) ? std::optional(last) : std::nullopt;
}

std::uint64_t
processVmCalls() {
    return calls.load(std::memory_order_relaxed);
}

} // namespace nixl::local
