// The keys under which messages of peers reach memory of ours.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "util/mutex.h"
#include "util/random.h"

namespace nixl::ucx {

/// Memory that messages may name. Shared by the table, the region and answers that are on their way.
struct OpenMemory {
    OpenMemory(std::uint64_t at, std::uint64_t bytes) : address(at), length(bytes) {}

    const std::uint64_t address;
    const std::uint64_t length;
    std::atomic<unsigned> sends{0}; ///< answers that UCX still reads it for

    bool
    covers(std::uint64_t at, std::uint64_t bytes) const {
        return at >= address && bytes <= length && at - address <= length - bytes;
    }
};

/// Thread-safe.
class RegionKeys {
public:
    /// Random, not 0.
    std::uint64_t add(std::shared_ptr<OpenMemory> memory);

    /// After the return no view finds it, and none that did is left.
    void remove(std::uint64_t key);

    /// While it lives, what it finds stays registered. Held for a copy, no longer.
    class View {
    public:
        explicit View(const RegionKeys &keys) : keys_(keys), lock_(keys.mutex_) {}

        /// nullptr: no such key.
        const std::shared_ptr<OpenMemory> *find(std::uint64_t key) const NIXL_NO_LOCK_ANALYSIS;

    private:
        const RegionKeys &keys_;
        ReadLock lock_;
    };

private:
    mutable SharedMutex mutex_;
    RandomKeys random_ NIXL_GUARDED_BY(mutex_){SIZE_MAX}; // engines are not used on both sides of a fork
    std::unordered_map<std::uint64_t, std::shared_ptr<OpenMemory>> memory_ NIXL_GUARDED_BY(mutex_);
};

} // namespace nixl::ucx
