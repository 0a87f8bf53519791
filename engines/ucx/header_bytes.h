// Numbers in the headers of messages, as they lie in memory: little-endian (wire/container.h asserts it).
#pragma once

#include <cstring>

namespace nixl::ucx {

/// Writes a number at `at`, and moves on.
template<typename Number>
void
putNumber(char *&at, Number number) {
    std::memcpy(at, &number, sizeof number);
    at += sizeof number;
}

/// Reads a number at `at`, and moves on. REQUIRES: it lies within the bytes.
template<typename Number>
void
getNumber(const char *&at, Number &number) {
    std::memcpy(&number, at, sizeof number);
    at += sizeof number;
}

} // namespace nixl::ucx
