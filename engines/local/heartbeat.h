// What a process does once a second for its connections to peers: one timer for all of them.
#pragma once

#include <chrono>
#include <functional>
#include <map>

#include "util/event_loop.h"

namespace nixl::local {

/// Lives on the loop. The timer runs while somebody wants beats, so a process without connections sleeps.
class Heartbeat {
public:
    static constexpr std::chrono::seconds kPeriod{1};

    explicit Heartbeat(EventLoop &loop) : loop_(loop) {}

    /// Calls `beat` in each period until `who` is removed, which it may be from within.
    void addFromLoop(const void *who, std::function<void()> beat);
    void removeFromLoop(const void *who);

private:
    void waitFromLoop();
    void beatFromLoop();

    EventLoop &loop_;
    std::map<const void *, std::function<void()>> beats_;
    EventLoop::TimerId timer_ = 0; // 0: does not run
};

} // namespace nixl::local
