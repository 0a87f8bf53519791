#include "util/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace nixl {

namespace {

std::atomic<std::uint64_t> depth{0};

void
countFork() {
    depth.fetch_add(1, std::memory_order_relaxed);
}

// At load time: a fork before the first use must be counted too.
const int kRegistered = pthread_atfork(nullptr, nullptr, countFork);

} // namespace

std::uint64_t
forkDepth() {
    (void)kRegistered;
    return depth.load(std::memory_order_relaxed);
}

} // namespace nixl
