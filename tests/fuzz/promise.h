// How a fuzz target tells of a finding.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace nixl::fuzz {

/// Ends the process if a promise of a parser is broken.
inline void
require(bool condition, const char *promise) {
    if (condition)
        return;
    std::fprintf(stderr, "broken promise: %s\n", promise);
    std::abort();
}

} // namespace nixl::fuzz
