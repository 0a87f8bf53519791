#include "util/event_loop.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>

namespace nixl {

namespace {

constexpr std::uint64_t kWakeToken = 0;
constexpr std::int64_t kLongestSleepMs = 60'000;

Status
epollError(const char *what, int fd) {
    return Status::error(NIXL_ERR_BACKEND, what, " descriptor ", fd, ": ", strerror(errno));
}

} // namespace

Result<std::unique_ptr<EventLoop>>
EventLoop::create(const std::string &name) {
    ScopedFd epoll(epoll_create1(EPOLL_CLOEXEC));
    ScopedFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!epoll.valid() || !wake.valid())
        return Status::error(NIXL_ERR_BACKEND, "no descriptors for an event loop: ", strerror(errno));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kWakeToken;
    if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0)
        return epollError("cannot watch", wake.get());
    std::unique_ptr<EventLoop> loop(new EventLoop(std::move(epoll), std::move(wake)));
    loop->worker_.start(name, [raw = loop.get()] { raw->run(); });
    return loop;
}

EventLoop::EventLoop(ScopedFd epoll, ScopedFd wake) : epoll_(std::move(epoll)), wake_(std::move(wake)) {}

EventLoop::~EventLoop() {
    stop_.store(true);
    wake();
    worker_.join();
}

void
EventLoop::wake() {
    eventfd_write(wake_.get(), 1);
}

void
EventLoop::post(std::function<void()> work) {
    {
        const LockGuard lock(mutex_);
        posted_.push_back(std::move(work));
        if (posted_.size() > 1)
            return; // whoever posted the first has woken the thread
    }
    wake();
}

void
EventLoop::call(const std::function<void()> &work) {
    if (onLoop()) {
        work();
        return;
    }
    Mutex mutex;
    ConditionVariable changed;
    bool done = false;
    post([&] {
        work();
        const LockGuard lock(mutex);
        done = true;
        changed.notifyAll(); // under the lock: the caller's stack is gone once it sees `done`
    });
    const LockGuard lock(mutex);
    changed.wait(mutex, [&] { return done; });
}

bool
EventLoop::onLoop() const {
    return driver_.load(std::memory_order_relaxed) == std::this_thread::get_id();
}

Status
EventLoop::watchFromLoop(int fd, std::uint32_t events, Handler handler) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = nextToken_;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
        return epollError("cannot watch", fd);
    watches_[fd] = {nextToken_, std::make_shared<Handler>(std::move(handler))};
    fdOfToken_[nextToken_++] = fd;
    return {};
}

void
EventLoop::changeFromLoop(int fd, std::uint32_t events) {
    const auto found = watches_.find(fd);
    if (found == watches_.end())
        return;
    epoll_event event{};
    event.events = events;
    event.data.u64 = found->second.token;
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void
EventLoop::forgetFromLoop(int fd) {
    const auto found = watches_.find(fd);
    if (found == watches_.end())
        return;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    fdOfToken_.erase(found->second.token);
    watches_.erase(found);
}

EventLoop::TimerId
EventLoop::afterFromLoop(Clock::duration delay, std::function<void()> work) {
    const TimerId id = nextTimer_++;
    const auto when = Clock::now() + delay;
    timers_[{when, id}] = std::move(work);
    timeOfTimer_[id] = when;
    return id;
}

void
EventLoop::cancelFromLoop(TimerId timer) {
    const auto found = timeOfTimer_.find(timer);
    if (found == timeOfTimer_.end())
        return;
    timers_.erase({found->second, timer});
    timeOfTimer_.erase(found);
}

void
EventLoop::run() {
    for (;;) {
        pollers_.stepAside(stop_);
        int timeoutMs = -1;
        {
            const LockGuard driving(driving_);
            const bool last = stop_.load(); // before the look: what was posted until now is still run
            serve();
            if (last)
                return;
            if (stop_.load())
                continue; // serve() may have read the wake-up that came with it
            const Clock::time_point next = nextTime();
            awaited_.store(next.time_since_epoch().count());
            if (next != Clock::time_point::max()) {
                const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
                timeoutMs = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, kLongestSleepMs));
            }
        }
        // Only a look: between it and the lock somebody else may do what is to be done.
        epoll_event event;
        epoll_wait(epoll_.get(), &event, 1, timeoutMs);
        awaited_.store(kAwake);
    }
}

void
EventLoop::drive() {
    if (onLoop())
        return;
    const Pollers::Poll poll(pollers_);
    if (!driving_.try_lock())
        return;
    serve();
    // The thread sleeps until the time that it knew.
    if (nextTime().time_since_epoch().count() < awaited_.load())
        wake();
    driving_.unlock();
}

/// Descriptors before posted work: whoever posts writes to wake_ after it has posted, and a read here must
/// not swallow the news of work that nobody looks for any more.
void
EventLoop::serve() {
    driver_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    std::array<epoll_event, 64> events;
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), 0);
    for (int i = 0; i < count; ++i)
        dispatch(events[i].data.u64, events[i].events);
    runPosted();
    runTimers();
    driver_.store(std::thread::id(), std::memory_order_relaxed);
}

void
EventLoop::runPosted() {
    std::vector<std::function<void()>> work;
    {
        const LockGuard lock(mutex_);
        work.swap(posted_);
    }
    for (const auto &item : work)
        item();
}

void
EventLoop::runTimers() {
    while (!timers_.empty() && timers_.begin()->first.first <= Clock::now()) {
        const auto first = timers_.begin();
        const std::function<void()> work = std::move(first->second);
        timeOfTimer_.erase(first->first.second);
        timers_.erase(first);
        work();
    }
}

/// When the next timer is due; max(): there is none.
EventLoop::Clock::time_point
EventLoop::nextTime() const {
    return timers_.empty() ? Clock::time_point::max() : timers_.begin()->first.first;
}

void
EventLoop::dispatch(std::uint64_t token, std::uint32_t events) {
    if (token == kWakeToken) {
        eventfd_t value;
        eventfd_read(wake_.get(), &value);
        return;
    }
    const auto fd = fdOfToken_.find(token);
    if (fd == fdOfToken_.end())
        return;
    // Its own reference: the handler may forget its descriptor.
    const std::shared_ptr<Handler> handler = watches_.at(fd->second).handler;
    (*handler)(events);
}

} // namespace nixl
