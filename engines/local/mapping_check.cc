#include "engines/local/mapping_check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

#include <array>
#include <span>
#include <string_view>

#include "engines/local/host_copy.h"

namespace nixl::local {

namespace {

/// Opening the file costs as much as this many checks without it.
constexpr std::size_t kFewRanges = 4;

// struct procmap_query of the kernel, which headers before 6.11 lack.
struct MappingQuery {
    std::uint64_t size;
    std::uint64_t queryFlags;
    std::uint64_t address;
    std::uint64_t start;
    std::uint64_t end;
    std::uint64_t flags;
    std::uint64_t pageBytes;
    std::uint64_t offset;
    std::uint64_t inode;
    std::uint32_t major;
    std::uint32_t minor;
    std::uint32_t nameBytes;
    std::uint32_t buildIdBytes;
    std::uint64_t nameAddress;
    std::uint64_t buildIdAddress;
};

static_assert(sizeof(MappingQuery) == 104);

constexpr unsigned long kQuery = _IOWR('f', 17, MappingQuery);
constexpr std::uint64_t kReadable = 1;

/// Nullopt: errno says why not.
std::optional<MappingQuery>
ask(int maps, std::uint64_t address, std::span<char> name) {
    MappingQuery query{};
    query.size = sizeof query;
    query.address = address;
    query.nameAddress = name.empty() ? 0 : reinterpret_cast<std::uint64_t>(name.data());
    query.nameBytes = static_cast<std::uint32_t>(name.size());
    if (ioctl(maps, kQuery, &query) != 0)
        return std::nullopt;
    return query;
}

/// Memory of nobody's file, private or shared with children. What is mapped of a file may end before its
/// mapping does, or belong to a device.
bool
anonymous(int maps, const MappingQuery &mapping) {
    if (mapping.inode == 0 && mapping.major == 0 && mapping.minor == 0)
        return true;
    std::array<char, 64> name{};
    return ask(maps, mapping.start, name) && std::string_view(name.data()) == "/dev/zero (deleted)";
}

} // namespace

MappingCheck::MappingCheck(std::size_t ranges) {
    if (ranges > kFewRanges)
        maps_ = ScopedFd(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
}

/// Whether the address lies in a mapping that can be reached everywhere.
bool
MappingCheck::reachable(std::uint64_t address, bool sealed) {
    if (address - start_ < end_ - start_)
        return readable_ && (anonymous_ || sealed);
    if (!maps_.valid())
        return false;
    ++queries_;
    const auto mapping = ask(maps_.get(), address, {});
    if (!mapping) {
        if (errno != ENOENT) // which says that nothing is mapped there; others that there is no such question
            maps_.reset();
        return false;
    }
    start_ = mapping->start;
    end_ = mapping->end;
    readable_ = (mapping->flags & kReadable) != 0;
    anonymous_ = anonymous(maps_.get(), *mapping);
    return readable_ && (anonymous_ || sealed);
}

std::optional<std::uint64_t>
MappingCheck::unreachableEnd(std::uint64_t address, std::uint64_t length, bool sealed) {
    const std::uint64_t last = address + (length - 1);
    if (last >= address && reachable(address, sealed) && reachable(last, sealed))
        return std::nullopt;
    ++reads_;
    return local::unreachableEnd(address, length);
}

} // namespace nixl::local
