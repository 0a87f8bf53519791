// Numbers that others cannot guess, from the system.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
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

/// Keys as those of randomKey(), fetched many at a time. Not thread-safe. It must not be used on both sides
/// of a fork, which would get the same keys.
class RandomKeys {
public:
    /// `expected`: how many will be asked for; more are possible.
    explicit RandomKeys(std::size_t expected) : expected_(expected) {}

    std::uint64_t
    next() {
        std::uint64_t key = 0;
        while (key == 0) {
            if (left_ == 0)
                fetch();
            key = keys_[--left_];
        }
        return key;
    }

private:
    void
    fetch() {
        left_ = std::clamp<std::size_t>(expected_, 1, keys_.size());
        expected_ -= std::min(expected_, left_);
        randomBytes(keys_.data(), left_ * sizeof keys_[0]);
    }

    std::array<std::uint64_t, 32> keys_; // 256 bytes: what the kernel gives without interruption
    std::size_t left_ = 0;
    std::size_t expected_;
};

} // namespace nixl
