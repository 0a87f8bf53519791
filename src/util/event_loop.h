// A thread that sleeps until a file descriptor is ready, a time has come, or somebody posts work to it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "util/mutex.h"
#include "util/scoped_fd.h"
#include "util/status.h"
#include "util/worker.h"

namespace nixl {

/// Handlers, timers and posted work run one after the other on the loop's thread; none of them may block.
/// Functions marked FromLoop may be called on that thread only, the others from any thread.
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

    /// Runs `work` on the thread, in the order of the posts.
    void post(std::function<void()> work);

    /// Runs `work` on the thread and waits until it is done; directly if called there.
    void call(const std::function<void()> &work);

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
    void runPosted();
    void runTimers();
    int timeoutMs() const;
    void dispatch(std::uint64_t token, std::uint32_t events);

    struct Watch {
        std::uint64_t token;
        std::shared_ptr<Handler> handler;
    };

    const ScopedFd epoll_;
    const ScopedFd wake_; // eventfd: readable when something was posted

    mutable Mutex mutex_;
    std::vector<std::function<void()>> posted_ NIXL_GUARDED_BY(mutex_);
    bool stop_ NIXL_GUARDED_BY(mutex_) = false;
    std::thread::id id_ NIXL_GUARDED_BY(mutex_);

    // Of the loop's thread alone. A token names one watch, so that an event of a descriptor that was
    // forgotten meanwhile, and perhaps opened anew, reaches nobody.
    std::unordered_map<int, Watch> watches_;
    std::unordered_map<std::uint64_t, int> fdOfToken_;
    std::uint64_t nextToken_ = 1;
    std::map<std::pair<Clock::time_point, TimerId>, std::function<void()>> timers_;
    std::unordered_map<TimerId, Clock::time_point> timeOfTimer_;
    TimerId nextTimer_ = 1;

    Worker worker_;
};

} // namespace nixl
