// A thread that sleeps until a file descriptor is ready, a time has come, or somebody posts work to it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "util/mutex.h"
#include "util/pollers.h"
#include "util/scoped_fd.h"
#include "util/status.h"
#include "util/worker.h"

namespace nixl {

/// Handlers, timers and posted work run one after the other, on the loop's thread or on one that drives it;
/// none of them may block. Functions marked FromLoop may be called by them only, the others from any thread.
class EventLoop {
public:
    using Handler = std::function<void(std::uint32_t events)>;
    using Clock = std::chrono::steady_clock;
    using TimerId = std::uint64_t;

    /// Starts the thread.
    static Result<std::unique_ptr<EventLoop>> create(const std::string &name);

    /// Runs what was posted before, then ends the thread. Not on the thread itself.
    ~EventLoop();
    EventLoop(const EventLoop &) = delete;
    EventLoop &operator=(const EventLoop &) = delete;

    /// Runs `work`, in the order of the posts.
    void post(std::function<void()> work);

    /// Runs `work` and waits until it is done; directly if called from the loop.
    void call(const std::function<void()> &work);

    /// Does what is to be done now, unless somebody else is at it: for callers that wait for something which
    /// the loop does. While they do this again and again, the thread leaves the work to them. REQUIRES: no
    /// lock is held that a handler takes.
    void drive();

    /// A caller of drive() is going to sleep: the thread does the work.
    void
    leave() {
        pollers_.leave();
    }

    /// Whether the caller is a handler, a timer or posted work.
    bool onLoop() const;

    /// Calls `handler` while one of `events` (EPOLLIN ...) holds, until the descriptor is forgotten, which
    /// has to happen before it is closed. Errors and hang-ups are always reported.
    Status watchFromLoop(int fd, std::uint32_t events, Handler handler);
    void changeFromLoop(int fd, std::uint32_t events);
    void forgetFromLoop(int fd);

    /// Runs `work` once, not before `delay` has passed.
    TimerId afterFromLoop(Clock::duration delay, std::function<void()> work);
    void cancelFromLoop(TimerId timer);

private:
    EventLoop(ScopedFd epoll, ScopedFd wake);

    void run();
    void serve() NIXL_REQUIRES(driving_);
    void runPosted();
    void runTimers();
    Clock::time_point nextTime() const NIXL_REQUIRES(driving_);
    void dispatch(std::uint64_t token, std::uint32_t events);
    void wake();

    static constexpr Clock::rep kAwake = std::numeric_limits<Clock::rep>::min();

    struct Watch {
        std::uint64_t token;
        std::shared_ptr<Handler> handler;
    };

    const ScopedFd epoll_;
    const ScopedFd
        wake_; // eventfd: readable when something was posted, or a time comes earlier than expected

    Mutex driving_; // held by whoever runs handlers
    Pollers pollers_;
    std::atomic<bool> stop_{false};
    std::atomic<std::thread::id> driver_{};
    /// What the thread sleeps for; the least value while it does not sleep.
    std::atomic<Clock::rep> awaited_{kAwake};

    mutable Mutex mutex_;
    std::vector<std::function<void()>> posted_ NIXL_GUARDED_BY(mutex_);

    // Of the driver alone, as the FromLoop functions. A token names one watch, so that an event of a
    // descriptor that was forgotten meanwhile, and perhaps opened anew, reaches nobody.
    std::unordered_map<int, Watch> watches_;
    std::unordered_map<std::uint64_t, int> fdOfToken_;
    std::uint64_t nextToken_ = 1;
    std::map<std::pair<Clock::time_point, TimerId>, std::function<void()>> timers_;
    std::unordered_map<TimerId, Clock::time_point> timeOfTimer_;
    TimerId nextTimer_ = 1;

    Worker worker_;
};

} // namespace nixl
