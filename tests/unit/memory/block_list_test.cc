#include "memory/block_list.h"

#include <gtest/gtest.h>

#include <vector>

namespace nixl {
namespace {

TEST(BlockList, RowsAndSingleBlocksAreNumberedInOrder) {
    BlockList list;
    list.append(1000, 10, 100, 3, 0);
    list.append(5000, 20, 20, 1, 1);
    list.append(9000, 10, 10, 2, 0);
    ASSERT_EQ(list.size(), 6u);
    EXPECT_EQ(list.rowCount(), 3u);
    const std::uint64_t expected[] = {1000, 1100, 1200, 5000, 9000, 9010};
    // Forwards, backwards and jumping: the cursor's memory of the last row must not matter.
    for (const std::vector<int> &order :
         {std::vector<int>{0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {0, 5, 2, 4, 1, 3, 3}}) {
        BlockList::Cursor cursor(list);
        for (const int i : order)
            EXPECT_EQ(cursor.at(static_cast<std::uint64_t>(i)).address, expected[i]);
    }
    BlockList::Cursor cursor(list);
    EXPECT_EQ(cursor.at(3).length, 20u);
    EXPECT_EQ(cursor.at(3).region, 1u);
}

TEST(BlockList, ARunBehindSingleBlocksKeepsTheirNumbers) {
    BlockList list;
    list.expectBlocks(5);
    list.append(100, 10, 3);
    list.append(50, 20, 4);
    EXPECT_EQ(list.rowCount(), 2u);
    list.append(1000, 10, 100, 2, 5);
    list.append(70, 30, 6);
    ASSERT_EQ(list.size(), 5u);
    EXPECT_EQ(list.rowCount(), 4u);
    BlockList::Cursor cursor(list);
    const ListBlock expected[] = {{100, 10, 3}, {50, 20, 4}, {1000, 10, 5}, {1100, 10, 5}, {70, 30, 6}};
    for (std::uint64_t i = 0; i < 5; ++i) {
        const ListBlock block = cursor.at(i);
        EXPECT_EQ(block.address, expected[i].address);
        EXPECT_EQ(block.length, expected[i].length);
        EXPECT_EQ(block.region, expected[i].region);
    }
}

TEST(BlockList, AMillionSingleBlocksAreReadAsTheyWereWritten) {
    constexpr std::uint64_t kBlocks = 1'000'000;
    BlockList list;
    list.expectBlocks(kBlocks);
    for (std::uint64_t i = 0; i < kBlocks; ++i)
        list.append(i * 7919 % 1'000'003, i + 1, static_cast<std::uint32_t>(i % 5));
    BlockList::Cursor cursor(list);
    for (std::uint64_t i = 0; i < kBlocks; ++i) {
        const ListBlock block = cursor.at(i);
        ASSERT_EQ(block.address, i * 7919 % 1'000'003);
        ASSERT_EQ(block.length, i + 1);
        ASSERT_EQ(block.region, i % 5);
    }
}

TEST(BlockList, RunsNeedEqualLengthsDistancesAndDevice) {
    const auto run = [](std::vector<nixlBasicDesc> descs, std::size_t start = 0) {
        return runLength(descs, start);
    };
    EXPECT_EQ(run({{0, 8, 0}, {16, 8, 0}, {32, 8, 0}, {40, 8, 0}}), 3u);
    EXPECT_EQ(run({{0, 8, 0}, {16, 8, 0}, {32, 4, 0}}), 2u);
    EXPECT_EQ(run({{0, 8, 0}, {16, 8, 0}, {32, 8, 1}}), 2u);
    EXPECT_EQ(run({{32, 8, 0}, {16, 8, 0}}), 1u) << "decreasing";
    EXPECT_EQ(run({{0, 8, 0}, {4, 8, 0}}), 1u) << "overlapping";
    EXPECT_EQ(run({{0, 8, 0}, {0, 8, 0}}), 1u);
    EXPECT_EQ(run({{0, 8, 0}}), 1u);
    EXPECT_EQ(run({{0, 8, 0}, {16, 8, 0}, {24, 8, 0}, {32, 8, 0}}, 1), 3u);
}

TEST(BlockList, WhereALongRunBeginsItMayBegin) {
    std::vector<nixlBasicDesc> descs;
    for (std::size_t i = 0; i < kShortestRun; ++i)
        descs.emplace_back(100 + 16 * i, 8, 0);
    EXPECT_TRUE(mayBeginRun(descs, 0));
    EXPECT_FALSE(mayBeginRun(descs, 1)) << "too few are left";
    for (std::size_t odd = 1; odd < kShortestRun; ++odd) {
        auto others = descs;
        others[odd].addr += 1;
        EXPECT_LT(runLength(others, 0), kShortestRun);
        if (odd == 1 || odd + 1 == kShortestRun) {
            EXPECT_FALSE(mayBeginRun(others, 0)) << odd;
        }
    }
    descs.back().len = 4;
    EXPECT_FALSE(mayBeginRun(descs, 0));
}

TEST(BlockList, TellsHowItKeepsItsBlocks) {
    BlockList list;
    EXPECT_EQ(list.singles(), nullptr) << "there are none";
    EXPECT_FALSE(list.onlyRow());
    list.append(100, 8, 3);
    ASSERT_NE(list.singles(), nullptr);
    EXPECT_EQ(list.singles()->address, 100u);
    EXPECT_FALSE(list.onlyRow());
    BlockList row;
    row.append(100, 8, 16, 50, 3);
    EXPECT_EQ(row.singles(), nullptr);
    ASSERT_TRUE(row.onlyRow());
    EXPECT_EQ(row.onlyRow()->first.region, 3u);
    EXPECT_EQ(row.onlyRow()->distance, 16u);
    row.append(9, 8, 3);
    EXPECT_FALSE(row.onlyRow()) << "there are two";
    EXPECT_EQ(row.singles(), nullptr);
}

TEST(BlockList, ARunIsCutWhereRegionsEnd) {
    // Two regions of 100 bytes; blocks of 10 every 40 bytes: 0, 40, 80 | 120, 160.
    const Covering first{7, nixlBasicDesc(0, 100, 0)}, second{8, nixlBasicDesc(100, 100, 0)};
    const auto cover = [&](const nixlBasicDesc &block) {
        return first.range.covers(block) ? &first : second.range.covers(block) ? &second : nullptr;
    };
    BlockList list;
    EXPECT_EQ(appendRun(list, nixlBasicDesc(0, 10, 0), 40, 5, cover), 5u);
    EXPECT_EQ(list.rowCount(), 2u);
    BlockList::Cursor cursor(list);
    EXPECT_EQ(cursor.at(2).region, 7u);
    EXPECT_EQ(cursor.at(3).region, 8u);
    EXPECT_EQ(cursor.at(4).address, 160u);
    BlockList short_list;
    EXPECT_EQ(appendRun(short_list, nixlBasicDesc(0, 10, 0), 40, 6, cover), 5u) << "the sixth lies outside";
    BlockList crossing;
    EXPECT_EQ(appendRun(crossing, nixlBasicDesc(95, 10, 0), 40, 2, cover), 0u);
}

TEST(BlockList, AHugeCountIsOneRow) {
    const Covering whole{0, nixlBasicDesc(0, ~std::size_t{0}, 0)};
    const auto cover = [&](const nixlBasicDesc &) { return &whole; };
    BlockList list;
    const std::uint64_t count = std::uint64_t{1} << 40;
    EXPECT_EQ(appendRun(list, nixlBasicDesc(0, 512, 0), 1024, count, cover), count);
    EXPECT_EQ(list.rowCount(), 1u);
    BlockList::Cursor cursor(list);
    EXPECT_EQ(cursor.at(count - 1).address, (count - 1) * 1024);
}

} // namespace
} // namespace nixl
