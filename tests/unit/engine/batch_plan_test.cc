#include "engine/batch_plan.h"

#include <random>

#include <gtest/gtest.h>

namespace nixl {

namespace {

constexpr BatchLimits kLimits{512 << 10, 300};

TEST(BatchPlan, AHugeBlockTakesNoMemory) {
    // 2^32 batches: as entries they would be 64 GiB.
    const Block huge{0, 0, kMostBatches * kLimits.bytes, 0, 0};
    const auto plan = BatchPlan::make(std::span(&huge, 1), kLimits);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    ASSERT_EQ(plan.value().count(), kMostBatches);
    EXPECT_EQ(plan.value().start(0).offset, 0U);
    EXPECT_EQ(plan.value().start(12345).offset, 12345 * kLimits.bytes);
    EXPECT_EQ(plan.value().start(kMostBatches - 1).block, 0U);
    EXPECT_EQ(plan.value().start(kMostBatches).block, 1U);
}

TEST(BatchPlan, CutsOnlyWhereABatchIsFull) {
    std::mt19937 random(8);
    std::vector<Block> blocks;
    for (int i = 0; i < 5000; ++i) {
        const std::uint64_t lengths[] = {
            0, 1, 777, kLimits.bytes, kLimits.bytes + 1, 3 * kLimits.bytes, 2 * kLimits.bytes + 9};
        blocks.push_back({0, 0, random() % 3 == 0 ? lengths[random() % 7] : random() % 5000, 0, 0});
    }
    const BatchPlan plan = BatchPlan::make(blocks, kLimits).value();
    std::uint64_t total = 0;
    for (std::size_t batch = 0; batch < plan.count(); ++batch) {
        const BlockPosition start = plan.start(batch);
        const BlockPosition end = plan.start(batch + 1);
        std::uint64_t bytes = end.offset - start.offset;
        for (std::size_t i = start.block; i < end.block; ++i)
            bytes += blocks[i].length;
        const std::size_t pieces = end.block - start.block + (end.offset > 0 ? 1 : 0);
        ASSERT_LE(bytes, kLimits.bytes);
        ASSERT_LE(pieces, kLimits.pieces);
        if (end.offset > 0) {
            ASSERT_EQ(bytes, kLimits.bytes) << batch;
        }
        total += bytes;
        std::size_t visited = 0;
        const Status status =
            plan.visit(blocks, batch, [&](std::size_t i, std::uint64_t from, std::uint64_t length) {
                EXPECT_EQ(i, start.block + visited);
                EXPECT_EQ(from, visited == 0 ? start.offset : 0);
                EXPECT_LE(from + length, blocks[i].length);
                bytes -= length;
                ++visited;
                return Status();
            });
        ASSERT_TRUE(status.ok());
        ASSERT_EQ(visited, pieces);
        ASSERT_EQ(bytes, 0U);
    }
    std::uint64_t expected = 0;
    for (const Block &block : blocks)
        expected += block.length;
    EXPECT_EQ(total, expected);
}

TEST(BatchPlan, AVisitEndsWithItsFirstError) {
    const std::vector<Block> blocks(5, Block{0, 0, 100, 0, 0});
    const BatchPlan plan = BatchPlan::make(blocks, kLimits).value();
    int calls = 0;
    const Status status = plan.visit(blocks, 0, [&](std::size_t i, std::uint64_t, std::uint64_t) {
        ++calls;
        return i == 2 ? Status(NIXL_ERR_CANCELED, "enough") : Status();
    });
    EXPECT_EQ(status.code(), NIXL_ERR_CANCELED);
    EXPECT_EQ(calls, 3);
}

} // namespace

} // namespace nixl
