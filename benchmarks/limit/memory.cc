#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace limit {

namespace {

constexpr std::size_t kGuard = 4096;

// With a page behind it that may not be touched, which keeps it apart from its neighbours in
// /proc/self/smaps.
std::byte *
map(std::size_t bytes, int flags, int fd) {
    void *memory = mmap(nullptr, bytes + kGuard, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (memory == MAP_FAILED || mprotect(static_cast<std::byte *>(memory) + bytes, kGuard, PROT_NONE) != 0)
        fail("mmap");
    (void)madvise(memory, bytes, MADV_HUGEPAGE); // a wish, as it is one for numpy and nixl.alloc
    return static_cast<std::byte *>(memory);
}

} // namespace

void
fail(const char *what) {
    throw std::system_error(errno, std::generic_category(), what);
}

std::byte *
mapPrivate(std::size_t bytes) {
    return map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

std::byte *
mapShared(std::size_t bytes) {
    const int fd = memfd_create("limit", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0)
        fail("memfd_create");
    std::byte *memory = map(bytes, MAP_SHARED, fd);
    close(fd);
    return memory;
}

double
hugeShare(const std::byte *memory, std::size_t bytes) {
    const auto first = reinterpret_cast<std::uintptr_t>(memory);
    std::ifstream mappings("/proc/self/smaps");
    std::string line;
    bool inside = false;
    double huge = 0;
    while (std::getline(mappings, line)) {
        unsigned long begin = 0, end = 0, kib = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
            inside = begin >= first && end <= first + bytes;
        else if (inside && (std::sscanf(line.c_str(), "AnonHugePages: %lu", &kib) == 1 ||
                            std::sscanf(line.c_str(), "ShmemPmdMapped: %lu", &kib) == 1))
            huge += static_cast<double>(kib) * 1024;
    }
    return huge / static_cast<double>(bytes);
}

} // namespace limit
