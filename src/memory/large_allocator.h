// Memory for long arrays that are written once from end to end.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

namespace nixl {

/// Allocates as usual, but has the kernel back long arrays by huge pages where it can: an array of a million
/// blocks then takes a dozen page faults and not thousands. resize() of a vector leaves new elements of a
/// trivial class unset.
template<typename T> class LargeAllocator {
public:
    using value_type = T;

    LargeAllocator() = default;

    template<typename Other> LargeAllocator(const LargeAllocator<Other> &) {}

    T *
    allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / 2 / sizeof(T))
            throw std::bad_array_new_length();
        const std::size_t bytes = count * sizeof(T);
        if (bytes < kLarge)
            return static_cast<T *>(::operator new(bytes));
        const std::size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
        void *memory = std::aligned_alloc(kHugePage, rounded);
        if (memory == nullptr)
            throw std::bad_alloc();
        (void)::madvise(memory, rounded, MADV_HUGEPAGE); // a hint; small pages do as well
        return static_cast<T *>(memory);
    }

    void
    deallocate(T *memory, std::size_t count) noexcept {
        if (count * sizeof(T) < kLarge)
            ::operator delete(memory);
        else
            std::free(memory);
    }

    template<typename Element, typename... Args>
    void
    construct(Element *at, Args &&...args) {
        if constexpr (sizeof...(Args) == 0)
            ::new (static_cast<void *>(at)) Element;
        else
            ::new (static_cast<void *>(at)) Element{std::forward<Args>(args)...};
    }

    friend bool
    operator==(const LargeAllocator &, const LargeAllocator &) {
        return true;
    }

private:
    static constexpr std::size_t kHugePage = 2 << 20;
    static constexpr std::size_t kLarge = 2 * kHugePage;
};

} // namespace nixl
