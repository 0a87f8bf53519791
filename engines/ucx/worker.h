// A UCX worker: its lock, the thread that serves it, and what is under way on it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engines/ucx/context.h"
#include "engines/ucx/link_table.h"
#include "util/mutex.h"
#include "util/pollers.h"
#include "util/scoped_fd.h"
#include "util/worker.h"

namespace nixl::ucx {

/// Something that a worker works on: a share of a transfer, a message.
class Operation {
public:
    virtual ~Operation() = default;

    /// Starts what can be started now. Never called from within UCX. REQUIRES: the worker's lock.
    virtual void
    feed() {}

    /// Nothing of it is under way and nothing more will be started. REQUIRES: the worker's lock.
    virtual bool over() const = 0;

    /// Called once, without locks, after it was over and the worker forgot it. May destroy the operation.
    virtual void ended() = 0;

protected:
    Operation() = default;
    Operation(const Operation &) = delete;
    Operation &operator=(const Operation &) = delete;

private:
    friend class ProgressWorker;

    Operation *nextOver_ = nullptr; ///< between over() and ended(): the next that a round found over
};

/// Every call into UCX that concerns a worker, its endpoints or their remote keys is made under its lock.
class ProgressWorker {
public:
    /// A worker without a thread: whoever calls progress() or tryProgress() drives it.
    static Result<std::unique_ptr<ProgressWorker>> create(Context &context, unsigned index);

    /// Ends the thread and destroys the UCX worker. Operations that are left are never told that they are
    /// over.
    ~ProgressWorker();
    ProgressWorker(const ProgressWorker &) = delete;
    ProgressWorker &operator=(const ProgressWorker &) = delete;

    /// Starts a thread that drives it from now on and sleeps while there is nothing to do; harmless if there
    /// is one. One caller at a time; others may use the worker meanwhile.
    Status startThread();

    /// The thread ends. Harmless without one. REQUIRES: nobody else uses the worker.
    void stopThread();

    bool
    threaded() const {
        return threaded_.load(std::memory_order_acquire);
    }

    /// A caller of tryProgress() is going to sleep: the thread does the work.
    void
    leave() {
        pollers_.leave();
    }

    /// Runs `body` under the lock, then a round of work, then tells operations that they are over.
    template<typename Body>
    void
    with(Body body) NIXL_EXCLUDES(mutex_) {
        waiting_.fetch_add(1, std::memory_order_relaxed);
        Round round;
        {
            LockGuard lock(mutex_);
            waiting_.fetch_sub(1, std::memory_order_relaxed);
            body();
            round = advance();
        }
        finish(round.over);
        if (round.any || (silent_.load(std::memory_order_relaxed) && busy_.load(std::memory_order_relaxed)))
            wake();
    }

    /// Tells of a connection whose operations may go on only when the worker is driven, without an event: its
    /// thread is woken for what other threads start, and looks again soon.
    void
    expectSilence() {
        silent_.store(true, std::memory_order_relaxed);
    }

    /// Runs `body` under the lock and nothing else.
    template<typename Body>
    auto
    locked(Body body) NIXL_EXCLUDES(mutex_) {
        LockGuard lock(mutex_);
        return body();
    }

    /// One round of work. True if anything happened.
    bool progress() NIXL_EXCLUDES(mutex_);

    /// The same for a caller that waits for something, or nothing if somebody else is at it. While callers do
    /// this again and again, the thread leaves the work to them.
    bool tryProgress() NIXL_EXCLUDES(mutex_);

    /// Takes an operation up; the next round of work feeds it. REQUIRES: the lock, as in a body of with(),
    /// enter() or locked(), into which the analysis does not see.
    void add(Operation &operation) NIXL_NO_LOCK_ANALYSIS;

    /// Has `work` run soon, without locks. REQUIRES: the lock, as add().
    void later(std::function<void()> work);

    /// The thread looks again in some milliseconds, without an event: something waits for its time.
    void
    lookAgain() {
        soon_.store(true, std::memory_order_relaxed);
    }

    /// Connections by the numbers that peers answer with. REQUIRES: the lock.
    LinkTable &
    links() {
        return links_;
    }

    /// Runs `body`, which may add operations, under the lock and leaves what follows to the thread, or to
    /// whoever drives the worker next.
    template<typename Body>
    void
    enter(Body body) NIXL_EXCLUDES(mutex_) {
        {
            LockGuard lock(mutex_);
            body();
            handed_ = true;
        }
        wake();
    }

    /// What is under way.
    std::size_t
    operations() NIXL_EXCLUDES(mutex_) {
        LockGuard lock(mutex_);
        return operations_.size();
    }

    unsigned
    index() const {
        return index_;
    }

    const Api &
    api() const {
        return context_.api();
    }

    Context &
    context() const {
        return context_;
    }

    ucp_worker_h
    handle() const {
        return handle_;
    }

    /// Has active messages of number `id` handed to `handler` with `argument`, which must outlive the worker.
    Status receive(unsigned id, ucp_am_recv_callback_t handler, void *argument);

    /// Most bytes of an active message's header.
    Result<std::size_t> headerLimit() const;

    /// The bytes by which peers reach it.
    Result<std::string> address() const;

private:
    /// What a round of work did. Operations that are over are linked, so that their end allocates nothing.
    struct Round {
        bool any = false; ///< anything happened
        Operation *over = nullptr;
    };

    ProgressWorker(Context &context, unsigned index, ucp_worker_h handle)
        : context_(context), index_(index), handle_(handle) {}

    Round advance() NIXL_REQUIRES(mutex_);
    static void finish(Operation *over);
    void wake();
    void run();
    void sleep(int eventFd);

    Context &context_;
    const unsigned index_;
    const ucp_worker_h handle_;

    Mutex mutex_;
    std::vector<Operation *> operations_ NIXL_GUARDED_BY(mutex_);
    std::minstd_rand turns_ NIXL_GUARDED_BY(mutex_); ///< who is fed first
    bool handed_ NIXL_GUARDED_BY(mutex_) = false;    ///< something waits for the next round
    LinkTable links_;                                ///< under the lock

    Pollers pollers_;
    std::atomic<int> waiting_{0};   ///< callers that want the lock; the thread lets them through
    std::atomic<bool> busy_{false}; ///< operations are under way
    std::atomic<bool> silent_{false};
    std::atomic<bool> soon_{false}; ///< lookAgain() since the last sleep
    std::atomic<bool> sleeping_{false};
    std::atomic<bool> stop_{false};
    std::atomic<bool> threaded_{false}; ///< set once, while others use the worker
    ScopedFd wake_;                     ///< eventfd: ends the thread's sleep; constant once threaded_ is set
    Worker thread_;
};

} // namespace nixl::ucx
