// What wakes those who wait for an agent: its engines tell that something has happened, never what. Whoever
// wakes looks for itself.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "util/fork_guard.h"
#include "util/mutex.h"
#include "util/scoped_fd.h"
#include "util/status.h"

namespace nixl {

class ActivityWatch;

/// Thread-safe. Shared by the agent, its engines, which may signal until they are destroyed, and watches: an
/// engine that cannot be stopped, and a watch, may outlive the agent.
class Activity {
public:
    using Clock = std::chrono::steady_clock;

    /// Changes with every signal. Who reads it before a look misses nothing that the look did not see.
    std::uint32_t
    count() const {
        return count_.load(std::memory_order_seq_cst);
    }

    /// Something happened; it can be seen already. Holds at most a lock under which nothing is called, and
    /// costs an addition if nobody waits.
    void signal();

    /// Sleeps until the count is not `seen`, or until `limit`; may return earlier.
    void sleep(std::uint32_t seen, const std::optional<Clock::time_point> &limit);

private:
    friend class ActivityWatch;

    std::atomic<std::uint32_t> count_{0}; ///< a futex
    std::atomic<std::uint32_t> sleepers_{0};
    std::atomic<bool> watched_{false}; ///< watches_ is not empty; written under mutex_

    Mutex mutex_;
    std::vector<ActivityWatch *> watches_ NIXL_GUARDED_BY(mutex_);
};

/// A descriptor that becomes readable with the next signal. Thread-safe. In a forked child it stays as it is:
/// the parent's events are not touched.
class ActivityWatch {
public:
    static Result<std::shared_ptr<ActivityWatch>> create(std::shared_ptr<Activity> activity);

    ~ActivityWatch();
    ActivityWatch(const ActivityWatch &) = delete;
    ActivityWatch &operator=(const ActivityWatch &) = delete;

    int
    fd() const {
        return event_.get();
    }

    /// Not readable until the next signal. A look after it sees what was signalled before.
    void clear();

private:
    friend class Activity;

    ActivityWatch(std::shared_ptr<Activity> activity, ScopedFd event);
    void raise();

    const std::shared_ptr<Activity> activity_;
    const ScopedFd event_;
    const ForkGuard fork_;
    std::atomic<bool> raised_{false}; ///< so that many signals are one write
};

} // namespace nixl
