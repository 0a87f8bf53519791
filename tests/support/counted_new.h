// Counts what a test program allocates by operator new. To be included by one source of the program.
#pragma once

#include <atomic>
#include <cstddef>

#include "support/watched_new.h"

namespace nixl::test {

/// Allocations so far, of any thread.
inline std::atomic<std::size_t> allocations{0};

} // namespace nixl::test

void
onAllocation(std::size_t) noexcept {
    nixl::test::allocations.fetch_add(1, std::memory_order_relaxed);
}
