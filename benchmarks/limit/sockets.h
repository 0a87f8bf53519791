// Connected sockets of two processes, and whole messages through them.
#pragma once

#include <cstddef>
#include <utility>

namespace limit {

/// A connection as (here, there): TCP on loop-back, or a stream of Unix sockets. Throws std::system_error.
std::pair<int, int> tcpSockets();
std::pair<int, int> unixSockets();

/// Throws std::system_error.
void writeAll(int socket, const std::byte *data, std::size_t bytes);

/// False: the other side has closed. Throws std::system_error.
bool readAll(int socket, std::byte *data, std::size_t bytes);

} // namespace limit
