// Which process this is. After fork() the child has the parent's objects but not its threads, so nothing that
// relies on a thread may be used, locked or joined there.
#pragma once

#include <cstdint>

namespace nixl {

/// Number of fork() calls that lead from the process that loaded the library to this one.
std::uint64_t forkDepth();

/// Remembers in which process it was made.
class ForkGuard {
public:
    ForkGuard() : depth_(forkDepth()) {}

    /// True in a child of the process that made it.
    bool
    inherited() const {
        return depth_ != forkDepth();
    }

private:
    std::uint64_t depth_;
};

} // namespace nixl
