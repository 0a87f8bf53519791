// A thread of the library. docs/threading.md lists every one of them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "util/fork_guard.h"

namespace nixl {

/// Owns at most one thread, which blocks all signals: handlers of the program never run in it. Not
/// thread-safe.
///
/// In a forked child the thread does not exist: join() and the destructor do nothing there.
class Worker {
public:
    Worker() = default;
    Worker(const Worker &) = delete;
    Worker &operator=(const Worker &) = delete;

    /// REQUIRES: the body has been told to end, or never started.
    ~Worker() {
        join();
    }

    /// Starts `body` in a thread with a name of at most 15 characters. REQUIRES: not running.
    void start(const std::string &name, std::function<void()> body);

    /// Waits for the end of the body; harmless if there is none.
    void join();

private:
    ForkGuard guard_;
    std::unique_ptr<std::thread> thread_;
};

} // namespace nixl
