// Messages that are in the socket and that the peer, as far as we know, has not taken in.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

namespace nixl::local {

/// Not thread-safe.
class Unconfirmed {
public:
    /// A message is in the socket, behind those before it.
    void
    add(std::string message) {
        messages_.push_back(std::move(message));
    }

    /// The peer says that it has taken in so many since the beginning. It may say anything: of what was not
    /// sent, and of what it had confirmed before, nothing changes.
    void
    confirm(std::uint64_t count) {
        for (; confirmed_ < count && !messages_.empty(); ++confirmed_)
            messages_.pop_front();
    }

    /// Those that are left, in their order.
    std::deque<std::string>
    takeAll() {
        return std::exchange(messages_, {});
    }

private:
    std::deque<std::string> messages_;
    std::uint64_t confirmed_ = 0;
};

} // namespace nixl::local
