// What an engine has received and the program has not taken yet.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "util/mutex.h"

namespace nixl {

/// Thread-safe.
class Inbox {
public:
    /// Takes messages in until `limit` bytes wait.
    explicit Inbox(std::uint64_t limit) : limit_(limit) {}

    /// False, and the message untouched, if it is full.
    bool push(const std::string &agent, std::string &&message);

    /// Appends all to `out`. True if the inbox has refused something since the last call: whoever waits for
    /// room can go on.
    bool take(std::vector<Notification> &out);

    /// Of those that nobody takes the newest are kept.
    void pushFailure(FailedNotification failure);

    /// Appends all to `out`, oldest first.
    void takeFailures(std::vector<FailedNotification> &out);

private:
    const std::uint64_t limit_;
    Mutex mutex_;
    std::vector<Notification> messages_ NIXL_GUARDED_BY(mutex_);
    std::uint64_t bytes_ NIXL_GUARDED_BY(mutex_) = 0;
    bool refused_ NIXL_GUARDED_BY(mutex_) = false;
    std::deque<FailedNotification> failures_ NIXL_GUARDED_BY(mutex_);
    std::uint64_t failureBytes_ NIXL_GUARDED_BY(mutex_) = 0;
};

} // namespace nixl
