// Messages of an agent to itself.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <string>

#include "engine/inbox.h"
#include "util/mutex.h"

namespace nixl::ucx {

/// In their order; what the inbox does not take waits for room. Thread-safe.
class SelfDelivery {
public:
    /// Called without locks once the message is in the inbox.
    using Done = std::function<void()>;

    /// `inbox` outlives it. `onArrival` may be empty.
    SelfDelivery(std::string agent, Inbox &inbox, std::function<void()> onArrival)
        : agent_(std::move(agent)), inbox_(inbox), onArrival_(std::move(onArrival)) {}

    /// `done`: perhaps before this returns.
    void deliver(std::string message, Done done);

    /// Waits at most `patience` for room. NIXL_ERR_NOT_ALLOWED: there was none, and the message is dropped.
    Status deliverWithin(std::string message, std::chrono::milliseconds patience);

    /// After messages were taken.
    void goOn();

private:
    struct Waiting {
        std::string message;
        Done done;
    };

    const std::string agent_;
    Inbox &inbox_;
    const std::function<void()> onArrival_;
    Mutex mutex_;
    ConditionVariable room_;
    std::deque<Waiting> waiting_ NIXL_GUARDED_BY(mutex_);
};

} // namespace nixl::ucx
