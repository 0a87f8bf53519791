// Locks that clang's thread-safety analysis can check: data names its lock with NIXL_GUARDED_BY.
#pragma once

#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#if defined(__clang__)
#define NIXL_ANNOTATE(x) __attribute__((x))
#else
#define NIXL_ANNOTATE(x)
#endif

#define NIXL_GUARDED_BY(m) NIXL_ANNOTATE(guarded_by(m))
#define NIXL_REQUIRES(...) NIXL_ANNOTATE(requires_capability(__VA_ARGS__))
#define NIXL_REQUIRES_SHARED(...) NIXL_ANNOTATE(requires_shared_capability(__VA_ARGS__))
#define NIXL_EXCLUDES(...) NIXL_ANNOTATE(locks_excluded(__VA_ARGS__))
/// For a function whose lock is held in a way that the analysis cannot follow; a comment says how.
#define NIXL_NO_LOCK_ANALYSIS NIXL_ANNOTATE(no_thread_safety_analysis)

namespace nixl {

class NIXL_ANNOTATE(capability("mutex")) Mutex {
public:
    void
    lock() NIXL_ANNOTATE(acquire_capability()) {
        mutex_.lock();
    }

    bool
    try_lock() NIXL_ANNOTATE(try_acquire_capability(true)) {
        return mutex_.try_lock();
    }

    void
    unlock() NIXL_ANNOTATE(release_capability()) {
        mutex_.unlock();
    }

private:
    std::mutex mutex_;
};

class NIXL_ANNOTATE(capability("mutex")) SharedMutex {
public:
    void
    lock() NIXL_ANNOTATE(acquire_capability()) {
        mutex_.lock();
    }

    void
    unlock() NIXL_ANNOTATE(release_capability()) {
        mutex_.unlock();
    }

    void
    lock_shared() NIXL_ANNOTATE(acquire_shared_capability()) {
        mutex_.lock_shared();
    }

    void
    unlock_shared() NIXL_ANNOTATE(release_shared_capability()) {
        mutex_.unlock_shared();
    }

private:
    std::shared_mutex mutex_;
};

/// Holds a mutex for its scope.
class NIXL_ANNOTATE(scoped_lockable) LockGuard {
public:
    explicit LockGuard(Mutex &mutex) NIXL_ANNOTATE(acquire_capability(mutex)) : mutex_(mutex) {
        mutex_.lock();
    }

    ~LockGuard() NIXL_ANNOTATE(release_capability()) {
        mutex_.unlock();
    }

    LockGuard(const LockGuard &) = delete;
    LockGuard &operator=(const LockGuard &) = delete;

private:
    Mutex &mutex_;
};

/// Holds a shared mutex exclusively for its scope.
class NIXL_ANNOTATE(scoped_lockable) WriteLock {
public:
    explicit WriteLock(SharedMutex &mutex) NIXL_ANNOTATE(acquire_capability(mutex)) : mutex_(mutex) {
        mutex_.lock();
    }

    ~WriteLock() NIXL_ANNOTATE(release_capability()) {
        mutex_.unlock();
    }

    WriteLock(const WriteLock &) = delete;
    WriteLock &operator=(const WriteLock &) = delete;

private:
    SharedMutex &mutex_;
};

/// Holds a shared mutex together with other readers for its scope.
class NIXL_ANNOTATE(scoped_lockable) ReadLock {
public:
    explicit ReadLock(SharedMutex &mutex) NIXL_ANNOTATE(acquire_shared_capability(mutex)) : mutex_(mutex) {
        mutex_.lock_shared();
    }

    ~ReadLock() NIXL_ANNOTATE(release_capability()) {
        mutex_.unlock_shared();
    }

    ReadLock(const ReadLock &) = delete;
    ReadLock &operator=(const ReadLock &) = delete;

private:
    SharedMutex &mutex_;
};

/// Waits while holding a Mutex.
class ConditionVariable {
public:
    template<typename Predicate>
    void
    wait(Mutex &mutex, Predicate predicate) NIXL_REQUIRES(mutex) {
        condition_.wait(mutex, predicate);
    }

    template<typename Duration, typename Predicate>
    bool
    waitFor(Mutex &mutex, Duration duration, Predicate predicate) NIXL_REQUIRES(mutex) {
        return condition_.wait_for(mutex, duration, predicate);
    }

    void
    notifyOne() {
        condition_.notify_one();
    }

    void
    notifyAll() {
        condition_.notify_all();
    }

private:
    std::condition_variable_any condition_;
};

} // namespace nixl
