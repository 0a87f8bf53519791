// Memory where challenges of peers lie while they are read back.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engines/local/protocol.h"
#include "util/status.h"

namespace nixl::local {

/// The memory serves challenges only, for as long as the process lives: a peer that was given up may still
/// write to its slot later, and must not hit anything else. Not thread-safe.
class ProofSlots {
public:
    static Result<ProofSlots> create();

    /// Puts a challenge into a free slot and returns its address; nullopt: all are taken.
    std::optional<std::uint64_t> put(const Challenge &challenge);

    void giveBack(std::uint64_t address);

private:
    ProofSlots(Challenge *slots, std::size_t count);

    Challenge *slots_; // never unmapped
    std::vector<std::uint64_t> free_;
};

} // namespace nixl::local
