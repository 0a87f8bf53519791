// Memory of an engine's registrations that peers can map.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "memory/sealed_memory.h"
#include "util/mutex.h"

namespace nixl::local {

/// A memory is lent while a registration lies in it. Thread-safe.
class LentMemory {
public:
    /// Counts a registration in; returns the name by which peers ask for the memory.
    std::uint64_t enter(std::shared_ptr<const SealedMemory> memory);

    /// Counts a registration out. True: it was the last one.
    bool leave(std::uint64_t id);

    /// nullptr: it is not lent.
    std::shared_ptr<const SealedMemory> find(std::uint64_t id) const;

private:
    struct Entry {
        std::shared_ptr<const SealedMemory> memory;
        std::size_t registrations = 0;
    };

    mutable Mutex mutex_;
    std::unordered_map<std::uint64_t, Entry> entries_ NIXL_GUARDED_BY(mutex_);
};

} // namespace nixl::local
