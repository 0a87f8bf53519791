// Pairing blocks gives the same for lists that are kept in different ways.
#include "agent/request_blocks.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace nixl {
namespace {

constexpr std::uint32_t kRegions = 3;

/// How a list keeps its blocks.
enum class Kept { kSingles, kOneRow, kRows };

/// A list of `count` blocks of 8 bytes, 16 apart.
ResolvedList
listOf(Kept kept, std::size_t count, std::uint64_t base) {
    auto blocks = std::make_shared<BlockList>();
    if (kept == Kept::kOneRow) {
        blocks->append(base, 8, 16, count, 1);
    } else {
        const std::size_t step = kept == Kept::kRows ? 5 : 1;
        for (std::size_t i = 0; i < count; i += step)
            blocks->append(base + 16 * i, 8, 16, std::min(step, count - i),
                           static_cast<std::uint32_t>(i / 40 % kRegions));
    }
    ResolvedList list{nullptr, blocks, {}};
    for (std::uint32_t i = 0; i < kRegions; ++i)
        list.regions.push_back(
            std::make_shared<RegionEntry>(nixlBasicDesc(base + i, 1, 0), DRAM_SEG, nullptr));
    return list;
}

/// What pairing has to give, block by block.
void
expectPairs(const RequestBlocks &made, const ResolvedList &local, const ResolvedList &remote,
            const std::vector<int> &localOrder, const std::vector<int> &remoteOrder) {
    ASSERT_EQ(made.blocks.size(), localOrder.size());
    EXPECT_EQ(made.pairs, localOrder.size());
    EXPECT_EQ(made.bytes, 8 * localOrder.size());
    BlockList::Cursor left(*local.blocks), right(*remote.blocks);
    for (std::size_t i = 0; i < localOrder.size(); ++i) {
        const ListBlock from = left.at(static_cast<std::uint64_t>(localOrder[i]));
        const ListBlock to = right.at(static_cast<std::uint64_t>(remoteOrder[i]));
        const Block &block = made.blocks[i];
        ASSERT_EQ(block.local, from.address) << i;
        ASSERT_EQ(block.remote, to.address) << i;
        ASSERT_EQ(block.length, 8u) << i;
        ASSERT_EQ(made.localRegions.at(block.localRegion), local.regions.at(from.region)) << i;
        ASSERT_EQ(made.remoteRegions.at(block.remoteRegion), remote.regions.at(to.region)) << i;
    }
}

constexpr Kept kWays[] = {Kept::kSingles, Kept::kOneRow, Kept::kRows};

TEST(RequestBlocks, PairsListsThatAreKeptInAnyWay) {
    constexpr std::size_t kBlocks = 123;
    std::vector<int> order(kBlocks), shuffled(kBlocks);
    std::iota(order.begin(), order.end(), 0);
    shuffled = order;
    std::shuffle(shuffled.begin(), shuffled.end(), std::minstd_rand(1));
    for (const Kept here : kWays) {
        for (const Kept there : kWays) {
            SCOPED_TRACE(static_cast<int>(here) * 10 + static_cast<int>(there));
            const ResolvedList local = listOf(here, kBlocks, 0x1000), remote = listOf(there, kBlocks, 0x9000);
            const auto whole = pairBlocks(local, std::nullopt, remote, std::nullopt, true);
            ASSERT_TRUE(whole.ok()) << whole.status().message();
            expectPairs(whole.value(), local, remote, order, order);
            const auto some = pairBlocks(local, shuffled, remote, order, true);
            ASSERT_TRUE(some.ok()) << some.status().message();
            expectPairs(some.value(), local, remote, shuffled, order);
            EXPECT_THAT(some.value().localRegions, ::testing::SizeIs(here == Kept::kOneRow ? 1u : kRegions));
        }
    }
}

TEST(RequestBlocks, IndicesOutsideAListAreRefusedWithTheirPosition) {
    for (const Kept kept : kWays) {
        const ResolvedList local = listOf(kept, 20, 0x1000), remote = listOf(kept, 20, 0x9000);
        const auto refusal = [&](int here, int there) {
            const std::vector<int> mine = {0, here}, theirs = {0, there};
            return pairBlocks(local, mine, remote, theirs, true).status().message();
        };
        EXPECT_EQ(refusal(19, 19), "");
        EXPECT_EQ(refusal(20, 0), "local index 20 at position 1 is outside the list of 20 blocks");
        EXPECT_EQ(refusal(-1, 0), "local index -1 at position 1 is outside the list of 20 blocks");
        EXPECT_EQ(refusal(0, 20), "remote index 20 at position 1 is outside the list of 20 blocks");
        EXPECT_EQ(refusal(0, -7), "remote index -7 at position 1 is outside the list of 20 blocks");
    }
}

/// As numbers without sign, negative indices would lie within lists of this length.
TEST(RequestBlocks, NegativeIndicesAreOutsideTheLongestList) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    auto blocks = std::make_shared<BlockList>();
    blocks->append(0, 1, 1, kMost, 0);
    const auto entry = std::make_shared<RegionEntry>(nixlBasicDesc(0, kMost, 0), FILE_SEG, nullptr);
    const ResolvedList list{nullptr, blocks, {entry}};
    for (const int negative : {-1, -2, std::numeric_limits<int>::min()}) {
        const std::vector<int> bad = {negative}, good = {0};
        EXPECT_THAT(pairBlocks(list, bad, list, good, true).status().message(),
                    ::testing::StartsWith("local index -"));
        EXPECT_THAT(pairBlocks(list, good, list, bad, true).status().message(),
                    ::testing::StartsWith("remote index -"));
    }
}

TEST(RequestBlocks, WhatContinuesOnBothSidesIsOneBlock) {
    auto adjacent = std::make_shared<BlockList>(), apart = std::make_shared<BlockList>();
    adjacent->append(0, 8, 8, 10, 0);
    for (std::uint64_t i = 0; i < 10; ++i)
        apart->append(1000 + 8 * i, 8, i / 4 == 1 ? 1 : 0);
    const auto entry = [] {
        return std::make_shared<RegionEntry>(nixlBasicDesc(0, 1, 0), DRAM_SEG, nullptr);
    };
    const ResolvedList row{nullptr, adjacent, {entry()}}, singles{nullptr, apart, {entry(), entry()}};
    const auto merged = pairBlocks(row, std::nullopt, singles, std::nullopt, true);
    ASSERT_TRUE(merged.ok());
    ASSERT_EQ(merged.value().blocks.size(), 3u) << "the regions change twice";
    EXPECT_EQ(merged.value().blocks[1].length, 32u);
    EXPECT_EQ(merged.value().bytes, 80u);
    EXPECT_EQ(merged.value().pairs, 10u);
    const auto kept = pairBlocks(row, std::nullopt, singles, std::nullopt, false);
    ASSERT_TRUE(kept.ok());
    EXPECT_EQ(kept.value().blocks.size(), 10u);
}

TEST(RequestBlocks, LengthsMustAgree) {
    auto other = std::make_shared<BlockList>();
    other->append(0, 8, 0);
    other->append(100, 9, 0);
    const ResolvedList uneven{nullptr, other, listOf(Kept::kSingles, 2, 0).regions};
    for (const Kept kept : kWays)
        EXPECT_EQ(pairBlocks(listOf(kept, 2, 0), std::nullopt, uneven, std::nullopt, true).status().message(),
                  "the blocks at position 1 differ in length: 8 local, 9 remote");
}

} // namespace
} // namespace nixl
