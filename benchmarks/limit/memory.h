// The memory that the yardstick moves, of the same pages as that of the programs which it is compared with.
#pragma once

#include <cstddef>
#include <system_error>

namespace limit {

/// Throws what errno says.
[[noreturn]] void fail(const char *what);

/// Memory that forked processes do not share, of huge pages where there are some, as numpy's large arrays
/// have it. No page exists before it is touched. Throws std::system_error.
std::byte *mapPrivate(std::size_t bytes);

/// The same of a memfd, as nixl.alloc has it: forked processes share it.
std::byte *mapShared(std::size_t bytes);

/// Which part of such memory, whose size is one of whole pages, lies in huge pages, 0 to 1, by what the
/// kernel tells of this process.
double hugeShare(const std::byte *memory, std::size_t bytes);

} // namespace limit
