// Capabilities, registration and lookup of paths.
#include <gmock/gmock.h>

#include <algorithm>

#include "conformance/suite_support.h"

namespace nixl::conformance {

using ::testing::HasSubstr;

TEST_P(EngineSuite, CapabilitiesAgreeWithTheDescription) {
    const EngineTraits &traits = GetParam();
    const std::shared_ptr<EngineFactory> factory = traits.makeFactory();
    EXPECT_FALSE(factory->info().name.empty());
    Side side(traits, "agent");
    const Capabilities &can = side.engine().capabilities();
    EXPECT_FALSE(can.memories.empty());
    // What it takes here may be less than what it could take elsewhere.
    if (!factory->info().memories.empty()) {
        EXPECT_THAT(can.memories, ::testing::IsSubsetOf(factory->info().memories));
    }
    for (const MemoryTraits &memory : traits.memories)
        EXPECT_THAT(can.memories, ::testing::Contains(memory.kind));
    EXPECT_TRUE(!can.remote || can.notifications) << "remote without notifications";
    EXPECT_TRUE(can.local || can.remote) << "moves nothing";
}

TEST_P(EngineSuite, RegistersTheSameAndNestedRangesIndependently) {
    Side side(GetParam(), "agent");
    for (std::size_t i = 0; i < GetParam().memories.size(); ++i) {
        const std::unique_ptr<Registered> whole = side.allocate(4096, i);
        const nixlBlobDesc desc = whole->desc();
        const nixlBlobDesc nested(desc.addr + 100, 1000, desc.devId, desc.metaInfo);
        const nixlBlobDesc overlapping(desc.addr + 1000, 3000, desc.devId, desc.metaInfo);
        std::vector<std::unique_ptr<LocalRegion>> regions;
        for (const nixlBlobDesc &range : {desc, nested, overlapping, nested, desc}) {
            Result<std::unique_ptr<LocalRegion>> region = side.engine().registerRegion(range, whole->kind());
            ASSERT_TRUE(region.ok()) << region.status().message();
            regions.push_back(std::move(region).value());
        }
        // Oldest first: ending one must not end the others.
        for (std::unique_ptr<LocalRegion> &region : regions) {
            const Status status = side.engine().deregisterRegion(*region);
            EXPECT_TRUE(status.ok()) << status.message();
            region.reset();
        }
        if (side.engine().capabilities().local) {
            whole->memory().store(0, pattern(100, 1));
            Transfer transfer(side.engine(), NIXL_WRITE, *whole, loopbackTarget(side, *whole),
                              {{0, 2000, 100}});
            const Progress progress = transfer.run();
            EXPECT_EQ(progress.code, NIXL_SUCCESS) << progress.message;
            EXPECT_EQ(whole->memory().load(2000, 100), pattern(100, 1));
        }
    }
}

TEST_P(EngineSuite, RegistersAListUntilOneFailsAndEndsItAsAList) {
    Side side(GetParam(), "agent");
    for (std::size_t i = 0; i < GetParam().memories.size(); ++i) {
        const std::unique_ptr<Registered> whole = side.allocate(4096, i);
        const nixlBlobDesc desc = whole->desc();
        std::vector<nixlBlobDesc> descs;
        for (std::size_t at = 0; at < 4096; at += 256)
            descs.emplace_back(desc.addr + at, 256, desc.devId, desc.metaInfo);
        const std::size_t good = descs.size();
        if (whole->kind() == DRAM_SEG || whole->kind() == VRAM_SEG) {
            descs.push_back(desc);
            descs.back().len = 0;
            descs.push_back(desc);
        }
        std::vector<std::unique_ptr<LocalRegion>> regions;
        const Status status = side.engine().registerRegions(descs, whole->kind(), regions);
        EXPECT_EQ(status.ok(), descs.size() == good) << status.message();
        EXPECT_EQ(regions.size(), good);
        std::vector<LocalRegion *> pointers;
        for (const auto &region : regions)
            pointers.push_back(region.get());
        for (const Engine::Unended &unended : side.engine().deregisterRegions(pointers))
            ADD_FAILURE() << unended.position << ": " << unended.reason.message();
        EXPECT_TRUE(side.engine().deregisterRegions({}).empty());
    }
}

TEST_P(EngineSuite, RefusesEmptyMemory) {
    Side side(GetParam(), "agent");
    for (std::size_t i = 0; i < GetParam().memories.size(); ++i) {
        const std::unique_ptr<Registered> memory = side.allocate(4096, i);
        if (memory->kind() != DRAM_SEG && memory->kind() != VRAM_SEG)
            continue;
        nixlBlobDesc empty = memory->desc();
        empty.len = 0;
        const Result<std::unique_ptr<LocalRegion>> region =
            side.engine().registerRegion(empty, memory->kind());
        ASSERT_FALSE(region.ok());
        EXPECT_FALSE(region.status().message().empty());
    }
}

TEST_P(EngineSuite, RefusesKindsOfMemoryThatItDoesNotName) {
    Side side(GetParam(), "agent");
    const std::unique_ptr<Registered> memory = side.allocate(4096);
    const nixl_mem_list_t &known = side.engine().capabilities().memories;
    for (const nixl_mem_t kind : {DRAM_SEG, VRAM_SEG, BLK_SEG, OBJ_SEG, FILE_SEG}) {
        if (std::count(known.begin(), known.end(), kind) != 0)
            continue;
        const Result<std::unique_ptr<LocalRegion>> region =
            side.engine().registerRegion(memory->desc(), kind);
        ASSERT_FALSE(region.ok()) << nixlEnumStrings::memTypeStr(kind);
        EXPECT_THAT(region.status().message(), HasSubstr(nixlEnumStrings::memTypeStr(kind)));
        const Result<Path> path = side.engine().path(NIXL_WRITE, kind, kind, nullptr);
        ASSERT_FALSE(path.ok()) << nixlEnumStrings::memTypeStr(kind);
        EXPECT_FALSE(path.status().message().empty());
    }
}

TEST_P(EngineSuite, PathsSayWhichAndWhy) {
    Side side(GetParam(), "agent");
    if (!side.engine().capabilities().local)
        GTEST_SKIP() << GetParam().name << " has no local transfers";
    for (const nixl_xfer_op_t operation : {NIXL_READ, NIXL_WRITE}) {
        const nixl_mem_t kind = GetParam().memories[0].kind;
        const Result<Path> path = side.engine().path(operation, kind, kind, nullptr);
        ASSERT_TRUE(path.ok()) << path.status().message();
        EXPECT_FALSE(path.value().lane.empty());
        EXPECT_FALSE(path.value().reason.empty());
        EXPECT_GT(path.value().bytesPerUs, 0);
        EXPECT_GE(path.value().latencyUs, 0);
        EXPECT_GE(path.value().perBlockUs, 0);
    }
}

TEST_P(EngineSuite, EnginesOfOneNameLiveSideBySide) {
    Side first(GetParam(), "twin");
    Side second(GetParam(), "twin");
    const std::unique_ptr<Registered> a = first.allocate(1000);
    const std::unique_ptr<Registered> b = second.allocate(1000);
    if (!first.engine().capabilities().local)
        GTEST_SKIP() << GetParam().name << " has no local transfers";
    a->memory().store(0, pattern(500, 1));
    b->memory().store(0, pattern(500, 2));
    Transfer inFirst(first.engine(), NIXL_WRITE, *a, loopbackTarget(first, *a), {{0, 500, 500}});
    Transfer inSecond(second.engine(), NIXL_WRITE, *b, loopbackTarget(second, *b), {{0, 500, 500}});
    EXPECT_EQ(inFirst.run().code, NIXL_SUCCESS);
    EXPECT_EQ(inSecond.run().code, NIXL_SUCCESS);
    EXPECT_EQ(a->memory().load(500, 500), pattern(500, 1));
    EXPECT_EQ(b->memory().load(500, 500), pattern(500, 2));
}

} // namespace nixl::conformance
