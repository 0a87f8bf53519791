// Numbers that others cannot guess, from the system.
#pragma once

#include <cstdint>

#include <sys/random.h>

namespace nixl {

/// Fills `bytes` with random bytes of the kernel; works from the first moment of a process, and in forked
/// children.
inline void
randomBytes(void *bytes, std::size_t count) {
    auto *at = static_cast<unsigned char *>(bytes);
    while (count > 0) {
        const ssize_t got = getrandom(at, count, 0);
        if (got < 0)
            continue; // EINTR; the call has no other failure for a valid buffer
        at += got;
        count -= static_cast<std::size_t>(got);
    }
}

/// A random 64-bit number other than 0.
inline std::uint64_t
randomKey() {
    std::uint64_t key = 0;
    while (key == 0)
        randomBytes(&key, sizeof key);
    return key;
}

} // namespace nixl
