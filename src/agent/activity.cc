#include "agent/activity.h"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

namespace nixl {

namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
              std::atomic<std::uint32_t>::is_always_lock_free);

/// Returns when it is woken, at `limit`, if the word is not `value`, and for a signal of the system.
void
futexWait(std::atomic<std::uint32_t> &word, std::uint32_t value,
          const std::optional<Activity::Clock::time_point> &limit) {
    timespec time{};
    if (limit) {
        // steady_clock is CLOCK_MONOTONIC, by which the kernel takes an absolute time here.
        const auto left = std::max(limit->time_since_epoch(), Activity::Clock::duration::zero());
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
        time.tv_sec = seconds.count();
        time.tv_nsec = std::chrono::nanoseconds(left - seconds).count();
    }
    (void)syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, value, limit ? &time : nullptr, nullptr,
                  FUTEX_BITSET_MATCH_ANY);
}

void
futexWakeAll(std::atomic<std::uint32_t> &word) {
    (void)syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

} // namespace

/// Either this sees a sleeper, or the sleeper, which announces itself first, sees the new count.
void
Activity::signal() {
    count_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0)
        futexWakeAll(count_);
    if (!watched_.load(std::memory_order_seq_cst))
        return;
    LockGuard lock(mutex_);
    for (ActivityWatch *watch : watches_)
        watch->raise();
}

void
Activity::sleep(std::uint32_t seen, const std::optional<Clock::time_point> &limit) {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    futexWait(count_, seen, limit);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

Result<std::shared_ptr<ActivityWatch>>
ActivityWatch::create(std::shared_ptr<Activity> activity) {
    ScopedFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event.valid())
        return Status::error(NIXL_ERR_BACKEND, "eventfd: ", std::strerror(errno));
    return std::shared_ptr<ActivityWatch>(new ActivityWatch(std::move(activity), std::move(event)));
}

ActivityWatch::ActivityWatch(std::shared_ptr<Activity> activity, ScopedFd event)
    : activity_(std::move(activity)), event_(std::move(event)) {
    LockGuard lock(activity_->mutex_);
    activity_->watches_.push_back(this);
    activity_->watched_.store(true, std::memory_order_seq_cst);
}

ActivityWatch::~ActivityWatch() {
    if (fork_.inherited())
        return; // a thread of the parent may have held the lock
    LockGuard lock(activity_->mutex_);
    std::erase(activity_->watches_, this);
    activity_->watched_.store(!activity_->watches_.empty(), std::memory_order_seq_cst);
}

void
ActivityWatch::raise() {
    if (raised_.exchange(true, std::memory_order_acq_rel))
        return;
    const std::uint64_t one = 1;
    (void)!::write(event_.get(), &one, sizeof one);
}

/// In this order: a signal in between leaves no write behind, and is seen by the look that follows.
void
ActivityWatch::clear() {
    if (fork_.inherited())
        return;
    std::uint64_t count = 0;
    (void)!::read(event_.get(), &count, sizeof count);
    (void)raised_.exchange(false, std::memory_order_acq_rel);
}

} // namespace nixl
