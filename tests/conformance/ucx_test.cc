// UCX over each kind of lane that can be had without RDMA hardware.
#include <sys/mman.h>

#include "conformance/engine_suite.h"
#include "conformance/suite_support.h"
#include "engines/ucx/block_message.h"
#include "engines/ucx/entry.h"

namespace nixl::conformance {

namespace {

// The sanitizers' wrapper of process_vm_readv takes the peer's addresses for its own.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define NIXL_SHARED_MEMORY "posix,sysv,self"
#else
#define NIXL_SHARED_MEMORY "posix,sysv,cma,self"
#endif

EngineTraits
ucxTraits(const std::string &name, const nixl_b_params_t &params) {
    EngineTraits traits;
    traits.name = name;
    traits.makeFactory = makeUcxEngineFactory;
    traits.params = params;
    traits.otherProcess = true;
    traits.optionalInfo = ucx::markAddress("").size();
    return traits;
}

/// Packed blocks, whose target looks at keys.
EngineTraits
tcpTraits() {
    return ucxTraits("UCX_tcp", {{"engine_config", "TLS=tcp,NET_DEVICES=lo"}});
}

/// Puts and gets as to a peer that is not ours. Lanes without hardware emulate them, and check nothing.
EngineTraits
putsTraits() {
    EngineTraits traits = ucxTraits("UCX_puts", {{"engine_config", "TLS=tcp,NET_DEVICES=lo"}});
    traits.options.ucxPackedBlocks = false;
    traits.checksTargets = false;
    return traits;
}

/// Shared memory of which UCX notices that the peer is gone, by asking.
EngineTraits
sharedMemoryTraits() {
    EngineTraits traits =
        ucxTraits("UCX_shm", {{"engine_config", "TLS=tcp," NIXL_SHARED_MEMORY ",NET_DEVICES=lo,"
                                                "POSIX_ERROR_HANDLING=y,SYSV_ERROR_HANDLING=y,"
                                                "KEEPALIVE_INTERVAL=1s"}});
    traits.noticesEnds = NoticesEnds::kOfProcesses;
    traits.checksTargets = false;
    return traits;
}

/// As with RDMA hardware, memory is reached without the peer's library.
EngineTraits
directTraits() {
    EngineTraits traits = ucxTraits(
        "UCX_direct", {{"ucx_error_handling_mode", "none"}, {"engine_config", "TLS=" NIXL_SHARED_MEMORY}});
    traits.noticesEnds = NoticesEnds::kNever;
    traits.checksTargets = false;
    return traits;
}

EngineTraits
threadsTraits() {
    return ucxTraits(
        "UCX_threads",
        {{"num_threads", "3"}, {"split_batch_size", "100"}, {"engine_config", "TLS=tcp,NET_DEVICES=lo"}});
}

} // namespace

/// A list of pages, of which some are not mapped.
TEST(UcxRegions, ListsAreRegisteredUpToMemoryThatIsNotMapped) {
    constexpr std::size_t kPage = 4096, kPages = 32, kHole = 5;
    Side side(tcpTraits(), "agent");
    void *const memory =
        mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    const auto base = reinterpret_cast<std::uint64_t>(memory);
    const auto registered = [&](const std::vector<nixlBlobDesc> &descs) {
        std::vector<std::unique_ptr<LocalRegion>> regions;
        const Status status = side.engine().registerRegions(descs, DRAM_SEG, regions);
        const std::size_t count = regions.size();
        for (const auto &region : regions)
            EXPECT_TRUE(side.engine().deregisterRegion(*region).ok());
        return std::pair(count, status.message());
    };
    std::vector<nixlBlobDesc> pages;
    for (std::size_t i = 0; i < kPages; ++i)
        pages.emplace_back(base + i * kPage, kPage, 0);
    EXPECT_EQ(registered(pages), std::pair(kPages, std::string()));
    ASSERT_EQ(munmap(static_cast<char *>(memory) + kHole * kPage, kPage), 0);
    const std::string text =
        concat("the memory of 4096 bytes at ", Hex{base + kHole * kPage}, " cannot be registered: address ",
               Hex{base + kHole * kPage}, " is unmapped");
    EXPECT_EQ(registered(pages), std::pair(kHole, text));
    EXPECT_EQ(registered({pages[kHole]}), std::pair(std::size_t{0}, text)) << "alone";
    EXPECT_EQ(registered({pages[0], pages[kHole], pages[kPages - 1]}), std::pair(std::size_t{1}, text))
        << "sparse";
    EXPECT_EQ(registered({pages[0], {base, kPages * kPage, 0}}), std::pair(std::size_t{2}, std::string()))
        << "a hole between the ends is for UCX to judge";
    EXPECT_EQ(registered({pages[0], {base, (kHole + 1) * kPage, 0}}).first, 1u) << "its end is in the hole";
    munmap(memory, kPages * kPage);
}

} // namespace nixl::conformance

NIXL_INSTANTIATE_ENGINE_SUITE(UcxTcp, tcpTraits());
NIXL_INSTANTIATE_ENGINE_SUITE(UcxPuts, putsTraits());
NIXL_INSTANTIATE_ENGINE_SUITE(UcxSharedMemory, sharedMemoryTraits());
NIXL_INSTANTIATE_ENGINE_SUITE(UcxDirect, directTraits());
NIXL_INSTANTIATE_ENGINE_SUITE(UcxThreads, threadsTraits());
