#include "engines/ucx/region_keys.h"

#include <utility>

namespace nixl::ucx {

std::uint64_t
RegionKeys::add(std::shared_ptr<OpenMemory> memory) {
    const WriteLock lock(mutex_);
    for (;;) {
        const std::uint64_t key = random_.next();
        if (memory_.try_emplace(key, memory).second)
            return key;
    }
}

void
RegionKeys::remove(std::uint64_t key) {
    const WriteLock lock(mutex_);
    memory_.erase(key);
}

const std::shared_ptr<OpenMemory> *
RegionKeys::View::find(std::uint64_t key) const {
    const auto found = keys_.memory_.find(key);
    return found == keys_.memory_.end() ? nullptr : &found->second;
}

} // namespace nixl::ucx
