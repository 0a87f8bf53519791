// The threads that copy for all LOCAL engines of a process.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "util/mutex.h"
#include "util/worker.h"

namespace nixl::local {

/// Work in batches that threads take one at a time.
class CopyJob {
public:
    virtual ~CopyJob() = default;

    /// Takes the next batch; nullopt: there is none left.
    virtual std::optional<std::size_t> claim() = 0;

    /// Does a claimed batch.
    virtual void run(std::size_t batch) = 0;
};

/// Threads start when there is work for them. Jobs take turns batch by batch, so that a small one does not
/// wait for the end of a large one. Thread-safe.
class CopyPool {
public:
    CopyPool() = default;

    ~CopyPool() {
        stop();
    }

    CopyPool(const CopyPool &) = delete;
    CopyPool &operator=(const CopyPool &) = delete;

    /// Allows this many threads, at least as many as were allowed before. 0: by the cores that this process
    /// may use, leaving one to the program.
    void allowThreads(unsigned count);

    /// Has the batches of a job done, `batches` of them at most.
    void add(std::shared_ptr<CopyJob> job, std::size_t batches);

    /// Ends the threads. REQUIRES: no job has batches left.
    void stop();

private:
    void work();
    void startThreads(std::size_t wanted) NIXL_REQUIRES(mutex_);

    Mutex mutex_;
    ConditionVariable changed_;
    std::deque<std::shared_ptr<CopyJob>> jobs_ NIXL_GUARDED_BY(mutex_);
    std::vector<std::unique_ptr<Worker>> workers_ NIXL_GUARDED_BY(mutex_);
    std::size_t idle_ NIXL_GUARDED_BY(mutex_) = 0;
    std::size_t allowed_ NIXL_GUARDED_BY(mutex_) = 1;
    bool stop_ NIXL_GUARDED_BY(mutex_) = false;
};

} // namespace nixl::local
