#include "engines/local/copy_pool.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace nixl::local {

namespace {

/// More threads than this gain little: the memory is busy then.
constexpr unsigned kMostByDefault = 8;

unsigned
usableCores() {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof cores, &cores) == 0)
        return static_cast<unsigned>(CPU_COUNT(&cores));
    return std::max(1U, std::thread::hardware_concurrency());
}

} // namespace

void
CopyPool::stop() {
    std::vector<std::unique_ptr<Worker>> workers;
    {
        const LockGuard lock(mutex_);
        stop_ = true;
        workers.swap(workers_);
    }
    changed_.notifyAll();
    for (const auto &worker : workers)
        worker->join();
}

void
CopyPool::allowThreads(unsigned count) {
    const unsigned wanted = count != 0 ? count : std::clamp(usableCores() - 1, 1U, kMostByDefault);
    const LockGuard lock(mutex_);
    allowed_ = std::max<std::size_t>(allowed_, wanted);
}

void
CopyPool::add(std::shared_ptr<CopyJob> job, std::size_t batches) {
    std::size_t wake;
    {
        const LockGuard lock(mutex_);
        jobs_.push_back(std::move(job));
        wake = std::min(batches, idle_);
        startThreads(batches);
    }
    for (; wake > 0; --wake)
        changed_.notifyOne();
}

void
CopyPool::startThreads(std::size_t wanted) {
    for (std::size_t ready = idle_; ready < wanted && workers_.size() < allowed_; ++ready) {
        workers_.push_back(std::make_unique<Worker>());
        workers_.back()->start("nixl-copy", [this] { work(); });
    }
}

void
CopyPool::work() {
    for (;;) {
        std::shared_ptr<CopyJob> job;
        std::optional<std::size_t> batch;
        {
            const LockGuard lock(mutex_);
            ++idle_;
            changed_.wait(mutex_, [this]() NIXL_REQUIRES(mutex_) { return stop_ || !jobs_.empty(); });
            --idle_;
            if (stop_)
                return;
            job = std::move(jobs_.front());
            jobs_.pop_front();
            batch = job->claim();
            if (batch)
                jobs_.push_back(job);
        }
        if (batch)
            job->run(*batch);
    }
}

} // namespace nixl::local
