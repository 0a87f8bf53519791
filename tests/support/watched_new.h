// Replaces operator new of a test program. To be included by one source of the program, which defines what is
// done at each allocation.
#pragma once

#include <cstdlib>
#include <new>

/// Called with the size of every allocation by operator new, in any thread.
void onAllocation(std::size_t size) noexcept;

namespace nixl::test {

inline void *
watchedAllocation(std::size_t size) {
    onAllocation(size);
    if (void *memory = std::malloc(size > 0 ? size : 1))
        return memory;
    throw std::bad_alloc();
}

} // namespace nixl::test

void *
operator new(std::size_t size) {
    return nixl::test::watchedAllocation(size);
}

void *
operator new[](std::size_t size) {
    return nixl::test::watchedAllocation(size);
}

// What sorts stably takes its buffer from here.
void *
operator new(std::size_t size, const std::nothrow_t &) noexcept {
    onAllocation(size);
    return std::malloc(size > 0 ? size : 1);
}

[[gnu::noinline]] void
operator delete(void *memory) noexcept {
    std::free(memory);
}

[[gnu::noinline]] void
operator delete[](void *memory) noexcept {
    std::free(memory);
}

[[gnu::noinline]] void
operator delete(void *memory, std::size_t) noexcept {
    std::free(memory);
}

[[gnu::noinline]] void
operator delete[](void *memory, std::size_t) noexcept {
    std::free(memory);
}
