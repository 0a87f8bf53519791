#include "engines/local/lent_memory.h"

namespace nixl::local {

std::uint64_t
LentMemory::enter(std::shared_ptr<const SealedMemory> memory) {
    const std::uint64_t id = memory->id();
    const LockGuard lock(mutex_);
    Entry &entry = entries_[id];
    entry.memory = std::move(memory);
    ++entry.registrations;
    return id;
}

bool
LentMemory::leave(std::uint64_t id) {
    std::shared_ptr<const SealedMemory> last; // ends without the lock
    const LockGuard lock(mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end() || --found->second.registrations > 0)
        return false;
    last = std::move(found->second.memory);
    entries_.erase(found);
    return true;
}

std::shared_ptr<const SealedMemory>
LentMemory::find(std::uint64_t id) const {
    const LockGuard lock(mutex_);
    const auto found = entries_.find(id);
    return found == entries_.end() ? nullptr : found->second.memory;
}

} // namespace nixl::local
