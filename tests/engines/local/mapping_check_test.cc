// Whether registered memory can be reached: the answers for lists are those for single ranges, in fewer
// calls.
#include "engines/local/mapping_check.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <set>
#include <string>
#include <vector>

#include "engines/local/local_fixture.h"
#include "util/memfd.h"
#include "util/scoped_fd.h"

namespace nixl::local {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 64;

/// A piece of the address space that ends with the object.
class Mapping {
public:
    Mapping(int flags, int fd = -1, std::size_t pages = kPages) : bytes_(pages * kPage) {
        address_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags, fd, 0);
    }

    ~Mapping() {
        munmap(address_, bytes_);
    }

    std::uint64_t
    at(std::size_t offset) const {
        return reinterpret_cast<std::uint64_t>(address_) + offset;
    }

    void
    protect(std::size_t page, int access) {
        ASSERT_EQ(mprotect(static_cast<char *>(address_) + page * kPage, kPage, access), 0);
    }

    void
    unmap(std::size_t page) {
        ASSERT_EQ(munmap(static_cast<char *>(address_) + page * kPage, kPage), 0);
    }

private:
    std::size_t bytes_;
    void *address_;
};

bool
kernelTells() {
    MappingCheck check(kPages);
    int here = 0;
    (void)check.unreachableEnd(reinterpret_cast<std::uint64_t>(&here), sizeof here);
    const std::size_t before = check.queries();
    (void)check.unreachableEnd(0x1000, 1);
    return check.queries() > before;
}

TEST(MappingCheck, OneQuestionTellsAboutAWholeMapping) {
    if (!kernelTells())
        GTEST_SKIP() << "this kernel has no PROCMAP_QUERY";
    for (const int flags : {MAP_PRIVATE | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS}) {
        const Mapping memory(flags);
        MappingCheck check(kPages);
        for (std::size_t page = 0; page < kPages; ++page)
            EXPECT_EQ(check.unreachableEnd(memory.at(page * kPage), kPage), std::nullopt) << page;
        EXPECT_EQ(check.unreachableEnd(memory.at(0), kPages * kPage), std::nullopt);
        EXPECT_EQ(check.queries(), 1u);
        EXPECT_EQ(check.reads(), 0u);
    }
}

TEST(MappingCheck, FewRangesAreNotWorthAQuestion) {
    const Mapping memory(MAP_PRIVATE | MAP_ANONYMOUS);
    MappingCheck check(1);
    EXPECT_EQ(check.unreachableEnd(memory.at(0), kPages * kPage), std::nullopt);
    EXPECT_EQ(check.queries(), 0u);
    EXPECT_EQ(check.reads(), 1u);
}

TEST(MappingCheck, HolesAndProtectedPagesAreFoundInsideAKnownMapping) {
    Mapping memory(MAP_PRIVATE | MAP_ANONYMOUS);
    memory.unmap(10);
    memory.protect(20, PROT_NONE);
    memory.protect(30, PROT_READ);
    for (const std::size_t ranges : {std::size_t{1}, kPages}) {
        MappingCheck check(ranges);
        const auto missing = [&](std::size_t page, std::size_t pages) {
            return check.unreachableEnd(memory.at(page * kPage), pages * kPage);
        };
        EXPECT_EQ(missing(0, 10), std::nullopt);
        EXPECT_EQ(missing(10, 1), memory.at(10 * kPage));
        EXPECT_EQ(missing(0, 11), memory.at(11 * kPage - 1));
        EXPECT_EQ(missing(0, 12), std::nullopt) << "only the ends are looked at";
        EXPECT_EQ(missing(20, 1), memory.at(20 * kPage));
        EXPECT_EQ(check.unreachableEnd(memory.at(20 * kPage), kPage, true), memory.at(20 * kPage))
            << "sealed";
        EXPECT_EQ(missing(19, 2), memory.at(21 * kPage - 1));
        EXPECT_EQ(missing(30, 1), std::nullopt) << "it can be read";
        EXPECT_EQ(missing(11, kPages - 11), std::nullopt);
        EXPECT_EQ(check.unreachableEnd(memory.at(0), ~std::uint64_t{0} - memory.at(0)),
                  memory.at(0) + (~std::uint64_t{0} - memory.at(0)) - 1);
        EXPECT_EQ(check.unreachableEnd(memory.at(kPage), ~std::uint64_t{0}), memory.at(kPage) - 2)
            << "it wraps";
    }
}

/// A file may end before its mapping, and a mapping of a device cannot be read by others: what belongs to a
/// file is read, range by range.
TEST(MappingCheck, MappedFilesAreReadAtEachEnd) {
    const ScopedFd file(createMemfd("mapping-check-test", 0));
    ASSERT_TRUE(file.valid());
    ASSERT_EQ(ftruncate(file.get(), 8 * kPage), 0);
    for (const int flags : {MAP_SHARED, MAP_PRIVATE}) {
        const Mapping memory(flags, file.get());
        MappingCheck check(kPages);
        EXPECT_EQ(check.unreachableEnd(memory.at(0), 8 * kPage), std::nullopt);
        EXPECT_EQ(check.unreachableEnd(memory.at(0), 9 * kPage), memory.at(9 * kPage - 1));
        EXPECT_EQ(check.unreachableEnd(memory.at(8 * kPage), 1), memory.at(8 * kPage));
        if (kernelTells()) {
            EXPECT_EQ(check.queries(), 1u) << "what cannot be told is asked once";
            EXPECT_EQ(check.reads(), 3u);
            EXPECT_EQ(check.unreachableEnd(memory.at(0), 8 * kPage, true), std::nullopt);
            EXPECT_EQ(check.reads(), 3u) << "a file that cannot shrink need not be read";
        }
    }
}

/// Descriptors of one page each.
std::vector<nixlBlobDesc>
pages(const Node &node, std::size_t count) {
    std::vector<nixlBlobDesc> descs;
    for (std::size_t i = 0; i < count; ++i)
        descs.emplace_back(node.address() + i * kPage, kPage, 0);
    return descs;
}

TEST(ListOfRegions, IsRegisteredUntilOneFails) {
    Node node("agent", kPages * kPage);
    for (const std::size_t bad : {std::size_t{0}, std::size_t{1}, std::size_t{40}}) {
        std::vector<nixlBlobDesc> descs = pages(node, kPages);
        descs[bad].addr = 0x1000;
        std::vector<std::unique_ptr<LocalRegion>> regions;
        const Status status = node.engine().registerRegions(descs, DRAM_SEG, regions);
        EXPECT_EQ(status.code(), NIXL_ERR_BACKEND);
        EXPECT_EQ(status.message(), "the memory of 4096 bytes at 0x1000 cannot be registered: address "
                                    "0x1000 is unmapped or protected");
        EXPECT_EQ(regions.size(), bad);
        for (const auto &region : regions)
            EXPECT_TRUE(node.engine().deregisterRegion(*region).ok());
    }
}

TEST(ListOfRegions, EndsAtOnceAndItsSlotsAreUsedAgain) {
    Node node("agent", kPages * kPage);
    const std::vector<nixlBlobDesc> descs = pages(node, kPages);
    const auto slots = [&] {
        std::vector<std::unique_ptr<LocalRegion>> regions;
        EXPECT_TRUE(node.engine().registerRegions(descs, DRAM_SEG, regions).ok());
        std::vector<LocalRegion *> pointers;
        std::set<std::string> used;
        for (const auto &region : regions) {
            pointers.push_back(region.get());
            used.insert(node.engine().publicData(*region).value().substr(0, 4));
        }
        EXPECT_TRUE(node.engine().deregisterRegions(pointers).empty());
        return used;
    };
    const auto first = slots();
    EXPECT_EQ(first.size(), kPages);
    EXPECT_EQ(slots(), first);
}

} // namespace
} // namespace nixl::local
