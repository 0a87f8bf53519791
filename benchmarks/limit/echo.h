// The round trip of a small message, which a notification cannot beat.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <utility>

namespace limit {

/// A forked process that answers messages of eight bytes. While it is measured, both processes poll their
/// socket, as programs do that wait for a notification; otherwise both sleep. Ends with this process.
class Echo {
public:
    /// Both ends of a connection, which it takes. Throws std::system_error.
    explicit Echo(std::pair<int, int> sockets);
    ~Echo();

    Echo(const Echo &) = delete;
    Echo &operator=(const Echo &) = delete;

    /// Returns after so many round trips, one after the other.
    void trips(std::size_t count) const;

private:
    int socket_ = -1;
    pid_t pid_ = -1;
};

} // namespace limit
