// Messages that are in the socket and that the peer, as far as we know, has not taken in.
#pragma once

#include <algorithm>
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
        bytes_ += costOf(message);
        largest_ = std::max<std::uint64_t>(largest_, message.size());
        messages_.push_back(std::move(message));
    }

    /// The peer says that it has taken in so many since the beginning. It may say anything: of what was not
    /// sent, and of what it had confirmed before, nothing changes.
    void
    confirm(std::uint64_t count) {
        for (; confirmed_ < count && !messages_.empty(); ++confirmed_) {
            bytes_ -= costOf(messages_.front());
            messages_.pop_front();
        }
    }

    /// Whether they are more than a peer can have, with `unread` bytes in the socket, that counts what it
    /// takes in and reads no more than one message while its inbox is full: those bytes, that message, and
    /// one that it takes in now.
    bool
    tooMany(std::uint64_t unread) const {
        constexpr std::uint64_t kSlack = std::uint64_t{64} << 20; // it may count a little later
        return bytes_ > kSlack + unread + 2 * largest_;
    }

    /// Those that are left, in their order.
    std::deque<std::string>
    takeAll() {
        bytes_ = 0;
        return std::exchange(messages_, {});
    }

private:
    /// With what it takes beside its bytes.
    static std::uint64_t
    costOf(const std::string &message) {
        return message.size() + sizeof message;
    }

    std::deque<std::string> messages_;
    std::uint64_t bytes_ = 0;
    std::uint64_t largest_ = 0;
    std::uint64_t confirmed_ = 0;
};

} // namespace nixl::local
