// Whether registered memory can be reached, for whole lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "util/scoped_fd.h"

namespace nixl::local {

/// Answers as unreachableEnd() for many ranges. Where the kernel tells about mappings (PROCMAP_QUERY, Linux
/// 6.11), it asks once per mapping instead of reading each range: anonymous memory that may be read counts
/// as reachable everywhere. So in a long list it does not notice single pages that are none (guard pages of
/// MADV_GUARD_INSTALL, pages lost to hardware), which the copy then finds. For one call of the program, which
/// does not unmap meanwhile what it registers.
class MappingCheck {
public:
    /// `ranges`: how many it will be asked for.
    explicit MappingCheck(std::size_t ranges);

    /// The end of the range that cannot be read; nullopt if both can. `sealed`: it lies in memory that cannot
    /// end before its mapping does. REQUIRES: `length` is not 0.
    std::optional<std::uint64_t> unreachableEnd(std::uint64_t address, std::uint64_t length,
                                                bool sealed = false);

    /// For tests: how often the kernel was asked about a mapping.
    std::size_t
    queries() const {
        return queries_;
    }

    /// For tests: how many ranges had to be read.
    std::size_t
    reads() const {
        return reads_;
    }

private:
    bool reachable(std::uint64_t address, bool sealed);

    ScopedFd maps_;
    std::uint64_t start_ = 0, end_ = 0;         ///< the last mapping that was asked about
    bool readable_ = false, anonymous_ = false; ///< what it is
    std::size_t queries_ = 0, reads_ = 0;
};

} // namespace nixl::local
