// The threads that copy for all LOCAL engines of a process.
#pragma once

#include <sched.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "util/mutex.h"
#include "util/worker.h"

namespace nixl::local {

/// Work in batches that threads take one at a time. In at most one pool.
class CopyJob {
public:
    struct Claim {
        std::size_t batch;
        std::size_t left; ///< batches that nobody has taken
    };

    virtual ~CopyJob() = default;

    /// Takes the next batch; nullopt: there is none left.
    virtual std::optional<Claim> claim() = 0;

    /// Does a claimed batch.
    virtual void run(std::size_t batch) = 0;

private:
    friend class CopyPool;

    // Its place in the pool's queue, under the pool's lock.
    std::shared_ptr<CopyJob> next_;
    bool queued_ = false;
};

/// Jobs take turns batch by batch, so that a small one does not wait for the end of a large one. A thread
/// that takes a batch and sees enough work beside it starts or wakes up to two more, so whoever adds a job
/// pays for one thread, and a job gets as many as its size is worth. Adding a job allocates nothing once the
/// threads run. Thread-safe.
class CopyPool {
public:
    CopyPool() = default;

    ~CopyPool() {
        stop();
    }

    CopyPool(const CopyPool &) = delete;
    CopyPool &operator=(const CopyPool &) = delete;

    /// Allows this many threads, at least as many as were allowed before. 0: one less than the cores that
    /// this process may use (usableCores), since the program has a thread of its own, which also copies while
    /// it asks for the state of a transfer.
    void allowThreads(unsigned count);

    /// Has the batches of a job done that are there to be claimed; harmless if it is being done already.
    /// False: this process can have no thread for it.
    [[nodiscard]] bool add(std::shared_ptr<CopyJob> job);

    /// Ends the threads and lets go of all jobs. REQUIRES: no job has batches left.
    void stop();

private:
    void work();
    void append(std::shared_ptr<CopyJob> job) NIXL_REQUIRES(mutex_);
    std::shared_ptr<CopyJob> takeFirst() NIXL_REQUIRES(mutex_);
    bool callThread() NIXL_REQUIRES(mutex_);

    Mutex mutex_;
    ConditionVariable changed_;
    std::shared_ptr<CopyJob> first_ NIXL_GUARDED_BY(mutex_); // the others follow by CopyJob::next_
    CopyJob *last_ NIXL_GUARDED_BY(mutex_) = nullptr;
    std::vector<std::unique_ptr<Worker>> workers_ NIXL_GUARDED_BY(mutex_);
    std::size_t idle_ NIXL_GUARDED_BY(mutex_) = 0;
    std::size_t
        called_ NIXL_GUARDED_BY(mutex_) = 0; // of the idle ones: notified, for work that is still there
    std::size_t allowed_ NIXL_GUARDED_BY(mutex_) = 1;
    cpu_set_t cores_ NIXL_GUARDED_BY(mutex_){}; // for the threads: those of whoever made an engine
    bool stop_ NIXL_GUARDED_BY(mutex_) = false;
};

} // namespace nixl::local
