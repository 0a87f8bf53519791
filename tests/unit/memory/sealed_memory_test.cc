#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "memory/sealed_memory.h"

namespace nixl {

namespace {

constexpr std::size_t kPage = 4096;

unsigned char *
bytesOf(const SealedMemory &memory) {
    return reinterpret_cast<unsigned char *>(memory.address());
}

bool
mappedAt(std::uint64_t address) {
    unsigned char resident = 0;
    return mincore(reinterpret_cast<void *>(address), kPage, &resident) == 0;
}

TEST(SealedMemory, IsZerosThatCannotShrinkOrGrow) {
    const auto memory = SealedMemory::create(3 * kPage + 1, false).value();
    EXPECT_EQ(memory->bytes(), 3 * kPage + 1);
    EXPECT_EQ(memory->mappedBytes(), 4 * kPage);
    EXPECT_EQ(memory->pageBytes(), kPage);
    EXPECT_EQ(memory->offset(), 0U);
    EXPECT_EQ(memory->note(), "");
    EXPECT_TRUE(std::all_of(bytesOf(*memory), bytesOf(*memory) + 4 * kPage,
                            [](unsigned char byte) { return byte == 0; }));
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    EXPECT_EQ(fcntl(memory->fd(), F_GET_SEALS) & kSeals, kSeals);
    EXPECT_EQ(ftruncate(memory->fd(), kPage), -1);
    EXPECT_EQ(ftruncate(memory->fd(), 5 * kPage), -1);
    EXPECT_EQ(fcntl(memory->fd(), F_GETFD), FD_CLOEXEC);
    bytesOf(*memory)[kPage] = 7;
    unsigned char byte = 0;
    ASSERT_EQ(pread(memory->fd(), &byte, 1, kPage), 1); // shared with whoever maps the file
    EXPECT_EQ(byte, 7);
}

TEST(SealedMemory, ErrorsNameSizeAndCause) {
    EXPECT_EQ(SealedMemory::create(0, false).status().code(), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(SealedMemory::create(0, false).status().message(), "memory of 0 bytes was asked for");
    for (const std::size_t bytes : {std::size_t{1} << 60, ~std::size_t{0}}) {
        const Status status = SealedMemory::create(bytes, false).status();
        EXPECT_EQ(status.code(), NIXL_ERR_BACKEND);
        EXPECT_EQ(status.message().find(concat("memory of ", bytes, " bytes cannot be had: ")), 0U)
            << status.message();
    }
}

TEST(SealedMemory, HugePagesOrTheReason) {
    std::size_t pages = 0;
    std::ifstream("/proc/sys/vm/nr_hugepages") >> pages;
    const auto memory = SealedMemory::create(5000, true).value();
    EXPECT_EQ(memory->bytes(), 5000U);
    EXPECT_GE(memory->mappedBytes(), 5000U);
    bytesOf(*memory)[4999] = 1;
    if (pages == 0) {
        EXPECT_EQ(memory->pageBytes(), kPage);
        EXPECT_EQ(memory->note().find("no huge pages for 5000 bytes: "), 0U) << memory->note();
    } else if (memory->note().empty()) { // others may have taken them
        EXPECT_GT(memory->pageBytes(), kPage);
    }
}

TEST(SealedMemory, IsFoundByAnyRangeWithinUntilItsEnd) {
    auto memory = SealedMemory::create(4 * kPage, false).value();
    const std::uint64_t at = memory->address();
    EXPECT_EQ(SealedMemory::covering(at, 4 * kPage), memory);
    EXPECT_EQ(SealedMemory::covering(at + 4 * kPage - 1, 1), memory);
    EXPECT_EQ(SealedMemory::covering(at + 17, 100), memory);
    EXPECT_EQ(SealedMemory::covering(at, 4 * kPage + 1), nullptr);
    EXPECT_EQ(SealedMemory::covering(at - 1, 2), nullptr);
    EXPECT_EQ(SealedMemory::covering(at + 4 * kPage, 1), nullptr);
    EXPECT_EQ(SealedMemory::covering(at + 1, ~std::uint64_t{0}), nullptr);
    auto other = SealedMemory::create(kPage, false).value();
    EXPECT_NE(other->id(), memory->id());
    EXPECT_EQ(SealedMemory::covering(other->address(), kPage), other);
    memory.reset();
    EXPECT_EQ(SealedMemory::covering(at, 1), nullptr);
    EXPECT_FALSE(mappedAt(at));
}

TEST(SealedMemory, ManyThreadsMakeFindAndEnd) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([] {
            for (int round = 0; round < 200; ++round) {
                auto memory = SealedMemory::create(kPage, false).value();
                const std::uint64_t at = memory->address();
                EXPECT_EQ(SealedMemory::covering(at, kPage), memory);
                std::thread ends([&] { memory.reset(); });
                const auto seen = SealedMemory::covering(at, 1);
                ends.join();
                EXPECT_TRUE(!seen || seen->address() == at);
            }
        });
    for (auto &thread : threads)
        thread.join();
}

TEST(SealedMemory, AForkedChildSharesTheBytes) {
    auto memory = SealedMemory::create(kPage, false).value();
    bytesOf(*memory)[0] = 1;
    const pid_t child = fork();
    if (child == 0) {
        const bool seen = bytesOf(*memory)[0] == 1 && SealedMemory::covering(memory->address(), 1) == memory;
        bytesOf(*memory)[1] = 2;
        memory.reset(); // of this process alone
        auto own = SealedMemory::create(kPage, false);
        _exit(seen && own.ok() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(bytesOf(*memory)[1], 2);
    EXPECT_EQ(bytesOf(*memory)[0], 1);
}

/// A memfd of four pages, mapped.
struct OwnMemfd {
    explicit OwnMemfd(int seals, int protection = PROT_READ | PROT_WRITE, int sharing = MAP_SHARED)
        : fd(memfd_create("own", MFD_ALLOW_SEALING)) {
        EXPECT_EQ(ftruncate(fd.get(), 4 * kPage), 0);
        memory = mmap(nullptr, 4 * kPage, protection, sharing, fd.get(), 0);
        if (seals != 0) {
            EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
        }
    }

    ~OwnMemfd() {
        munmap(memory, 4 * kPage);
    }

    std::uint64_t
    address() const {
        return reinterpret_cast<std::uint64_t>(memory);
    }

    Status
    adopt(std::uint64_t offset = 0, std::size_t bytes = 4 * kPage) const {
        return SealedMemory::adopt(fd.get(), address() + offset, bytes).status();
    }

    ScopedFd fd;
    void *memory;
};

TEST(AdoptedMemory, BelongsToTheProgram) {
    OwnMemfd own(F_SEAL_SHRINK);
    auto memory = SealedMemory::adopt(own.fd.get(), own.address() + kPage, 2 * kPage).value();
    own.fd.reset(); // no longer needed
    EXPECT_EQ(memory->address(), own.address() + kPage);
    EXPECT_EQ(memory->offset(), kPage);
    EXPECT_EQ(memory->bytes(), 2 * kPage);
    EXPECT_EQ(SealedMemory::covering(own.address() + kPage, 2 * kPage), memory);
    EXPECT_EQ(SealedMemory::covering(own.address(), kPage), nullptr);
    static_cast<unsigned char *>(own.memory)[kPage] = 9;
    unsigned char byte = 0;
    ASSERT_EQ(pread(memory->fd(), &byte, 1, static_cast<off_t>(memory->offset())), 1);
    EXPECT_EQ(byte, 9);
    EXPECT_NE(SealedMemory::adopt(memory->fd(), own.address(), 2 * kPage)
                  .status()
                  .message()
                  .find("is shared already"),
              std::string::npos);
    memory.reset();
    EXPECT_TRUE(mappedAt(own.address()));
    EXPECT_EQ(SealedMemory::covering(own.address() + kPage, kPage), nullptr);
}

TEST(AdoptedMemory, EverythingElseIsRefused) {
    const auto message = [](const Status &status) {
        EXPECT_EQ(status.code(), NIXL_ERR_INVALID_PARAM);
        return status.message().substr(status.message().rfind(": ") + 2);
    };
    const OwnMemfd loose(0);
    EXPECT_EQ(message(loose.adopt()), "the memfd is not sealed against shrinking (F_SEAL_SHRINK)");
    const OwnMemfd sealed(F_SEAL_SHRINK);
    EXPECT_EQ(message(sealed.adopt(0, 0)), "there are none");
    EXPECT_EQ(message(sealed.adopt(1, kPage)), "they do not begin at a page of 4096 bytes");
    EXPECT_EQ(message(sealed.adopt(8 * kPage * kPage)), "the memory is not mapped from it");
    EXPECT_EQ(message(SealedMemory::adopt(sealed.fd.get(), loose.address(), kPage).status()),
              "the memory is not mapped from it");
    EXPECT_EQ(message(SealedMemory::adopt(0, sealed.address(), kPage).status()), "it is not a memfd");
    EXPECT_EQ(message(SealedMemory::adopt(-1, sealed.address(), kPage).status()), "it is not a memfd");
    const OwnMemfd readable(F_SEAL_SHRINK, PROT_READ);
    EXPECT_EQ(message(readable.adopt()), "it is mapped as r--s, not shared for reading and writing");
    const OwnMemfd copied(F_SEAL_SHRINK, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    EXPECT_EQ(message(copied.adopt()), "it is mapped as rw-p, not shared for reading and writing");
    const OwnMemfd fixed(F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE);
    EXPECT_EQ(message(fixed.adopt()), "the memfd is sealed against writing");
    EXPECT_EQ(message(sealed.adopt(2 * kPage, 4 * kPage)),
              concat("the mapping ends at ", Hex{sealed.address() + 4 * kPage}));
}

TEST(AdoptedMemory, DoesNotGoOnBehindTheEndOfTheFile) {
    const ScopedFd fd(memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(fd.get(), kPage + 1), 0);
    ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    void *memory = mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    ASSERT_NE(memory, MAP_FAILED);
    const auto address = reinterpret_cast<std::uint64_t>(memory);
    EXPECT_TRUE(SealedMemory::adopt(fd.get(), address, 2 * kPage).ok())
        << "the file's last page is whole in memory";
    for (const std::size_t first : {0, 2, 3}) {
        const Status status =
            SealedMemory::adopt(fd.get(), address + first * kPage, (4 - first) * kPage).status();
        EXPECT_EQ(status.code(), NIXL_ERR_INVALID_PARAM);
        EXPECT_NE(status.message().find("the memfd has 4097 bytes"), std::string::npos) << status.message();
    }
    munmap(memory, 4 * kPage);
}

} // namespace

} // namespace nixl
