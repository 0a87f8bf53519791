#include "engines/local/proof_slots.h"

#include <sys/mman.h>

namespace nixl::local {

namespace {

constexpr std::size_t kBytes = 32 << 10;

/// The memory of a process outlives the engines that use it, one set after the other.
Result<void *>
slotMemory() {
    static void *const memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return Status::error(NIXL_ERR_BACKEND, "no memory for challenges");
    return memory;
}

} // namespace

Result<ProofSlots>
ProofSlots::create() {
    auto memory = slotMemory();
    if (!memory.ok())
        return memory.status();
    return ProofSlots(static_cast<Challenge *>(memory.value()), kBytes / sizeof(Challenge));
}

ProofSlots::ProofSlots(Challenge *slots, std::size_t count) : slots_(slots) {
    for (std::size_t i = count; i > 0; --i)
        free_.push_back(reinterpret_cast<std::uint64_t>(&slots_[i - 1]));
}

std::optional<std::uint64_t>
ProofSlots::put(const Challenge &challenge) {
    if (free_.empty())
        return std::nullopt;
    const std::uint64_t address = free_.back();
    free_.pop_back();
    *reinterpret_cast<Challenge *>(address) = challenge;
    return address;
}

void
ProofSlots::giveBack(std::uint64_t address) {
    free_.push_back(address);
}

} // namespace nixl::local
