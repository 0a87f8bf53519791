// The process that the yardstick moves bytes to and from.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace limit {

/// A forked process, connected by TCP on loop-back. It takes in what the connection brings, and answers each
/// message (8 bytes of length, then that much) with a byte. Ends with this process.
class OtherProcess {
public:
    /// `own` and `shared`: memory of `bytes` each that nobody has touched yet; at the same addresses the
    /// other process has its own pages of the first and those of this process of the second. Both exist there
    /// when this returns. Throws std::system_error.
    OtherProcess(std::byte *own, std::byte *shared, std::size_t bytes);
    ~OtherProcess();

    OtherProcess(const OtherProcess &) = delete;
    OtherProcess &operator=(const OtherProcess &) = delete;

    [[nodiscard]] pid_t
    pid() const {
        return pid_;
    }

    /// Which part of its own memory lies in huge pages.
    [[nodiscard]] double
    hugeShare() const {
        return hugeShare_;
    }

    /// Returns when the other process has it all.
    void send(const std::byte *data, std::uint64_t bytes) const;

private:
    int socket_ = -1;
    pid_t pid_ = -1;
    double hugeShare_ = 0;
};

} // namespace limit
