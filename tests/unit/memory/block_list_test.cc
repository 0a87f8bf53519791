#include "memory/block_list.h"

#include <gtest/gtest.h>

#include <optional>

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

TEST(BlockList, ARunIsCutWhereRegionsEnd) {
    // Two regions of 100 bytes; blocks of 10 every 40 bytes: 0, 40, 80 | 120, 160.
    const auto cover = [](const nixlBasicDesc &block) -> std::optional<Covering> {
        const nixlBasicDesc first(0, 100, 0), second(100, 100, 0);
        if (first.covers(block))
            return Covering{7, first};
        if (second.covers(block))
            return Covering{8, second};
        return std::nullopt;
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
    const nixlBasicDesc whole(0, ~std::size_t{0}, 0);
    const auto cover = [&](const nixlBasicDesc &) { return std::optional<Covering>(Covering{0, whole}); };
    BlockList list;
    const std::uint64_t count = std::uint64_t{1} << 40;
    EXPECT_EQ(appendRun(list, nixlBasicDesc(0, 512, 0), 1024, count, cover), count);
    EXPECT_EQ(list.rowCount(), 1u);
    BlockList::Cursor cursor(list);
    EXPECT_EQ(cursor.at(count - 1).address, (count - 1) * 1024);
}

} // namespace
} // namespace nixl
