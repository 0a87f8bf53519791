#include "engines/local/copy_pool.h"

#include <sched.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "engines/local/cores.h"

namespace nixl::local {

namespace {

/// More threads than this gain little: the memory is busy then.
constexpr unsigned kMostByDefault = 8;
/// Waking a thread takes about as long as a batch; with so many left it still has something to do.
constexpr std::size_t kWorthAThread = 2;
/// Threads that one thread wakes before it copies: a wake-up takes some ten microseconds, and eight threads
/// are at work after three of them instead of eight.
constexpr std::size_t kWakes = 2;

/// A thread that wakes takes an idle core or waits for its share, but does not interrupt a running thread:
/// that is most likely the one that posts, whose call would then last as long as the copies. Nor does it
/// inherit a real-time policy from there. Where it is not allowed, nothing is lost but that.
void
interruptNobody() {
    const sched_param none{};
    if (sched_getscheduler(0) != SCHED_IDLE)
        (void)sched_setscheduler(0, SCHED_BATCH, &none);
}

} // namespace

void
CopyPool::stop() {
    std::vector<std::unique_ptr<Worker>> workers;
    std::shared_ptr<CopyJob> job;
    {
        const LockGuard lock(mutex_);
        stop_ = true;
        workers.swap(workers_);
        job = std::move(first_);
    }
    while (job) // one by one: each holds the next
        job = std::exchange(job->next_, nullptr);
    changed_.notifyAll();
    for (const auto &worker : workers)
        worker->join();
}

void
CopyPool::allowThreads(unsigned count) {
    const unsigned wanted = count != 0 ? count : std::clamp(usableCores() - 1, 1U, kMostByDefault);
    cpu_set_t cores;
    CPU_ZERO(&cores);
    const bool known = sched_getaffinity(0, sizeof cores, &cores) == 0;
    const LockGuard lock(mutex_);
    allowed_ = std::max<std::size_t>(allowed_, wanted);
    if (known)
        CPU_OR(&cores_, &cores_, &cores);
}

void
CopyPool::append(std::shared_ptr<CopyJob> job) {
    job->queued_ = true;
    CopyJob *const last = std::exchange(last_, job.get());
    (first_ ? last->next_ : first_) = std::move(job);
}

std::shared_ptr<CopyJob>
CopyPool::takeFirst() {
    std::shared_ptr<CopyJob> job = std::move(first_);
    first_ = std::move(job->next_);
    if (!first_)
        called_ = 0; // who finds nothing sleeps on
    job->queued_ = false;
    return job;
}

/// Has one more thread look at the queue, if there is one that does not. True: a sleeping one is to be
/// notified.
bool
CopyPool::callThread() {
    if (idle_ > called_) {
        ++called_;
        return true;
    }
    if (workers_.size() >= allowed_)
        return false;
    workers_.push_back(std::make_unique<Worker>());
    try {
        workers_.back()->start("nixl-copy", [this] { work(); });
    } catch (const std::system_error &) {
        // The process may have no more threads: those that run do the work, and the next job asks again if
        // there are none.
        workers_.pop_back();
        allowed_ = std::max<std::size_t>(workers_.size(), 1);
    }
    return false;
}

bool
CopyPool::add(std::shared_ptr<CopyJob> job) {
    bool notify;
    {
        const LockGuard lock(mutex_);
        notify = callThread();
        if (workers_.empty())
            return false;
        if (!job->queued_)
            append(std::move(job));
    }
    if (notify)
        changed_.notifyOne();
    return true;
}

void
CopyPool::work() {
    interruptNobody();
    {
        // Who starts a thread may be bound to a core, which the thread would inherit.
        const LockGuard lock(mutex_);
        if (CPU_COUNT(&cores_) > 0)
            (void)sched_setaffinity(0, sizeof cores_, &cores_);
    }
    for (;;) {
        std::shared_ptr<CopyJob> job;
        std::optional<CopyJob::Claim> claim;
        std::size_t asleep = 0;
        {
            const LockGuard lock(mutex_);
            ++idle_;
            changed_.wait(mutex_, [this]() NIXL_REQUIRES(mutex_) { return stop_ || first_ != nullptr; });
            --idle_;
            called_ -= called_ > 0 ? 1 : 0;
            if (stop_)
                return;
            job = takeFirst();
            const bool others = first_ != nullptr;
            claim = job->claim();
            if (claim && claim->left > 0)
                append(job);
            const std::size_t more =
                std::min(kWakes, (claim ? claim->left / kWorthAThread : 0) + (others ? 1 : 0));
            for (std::size_t i = 0; i < more; ++i)
                asleep += callThread() ? 1 : 0;
        }
        for (; asleep > 0; --asleep)
            changed_.notifyOne();
        if (claim)
            job->run(claim->batch);
    }
}

} // namespace nixl::local
