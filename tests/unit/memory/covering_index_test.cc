#include "memory/covering_index.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>

namespace nixl {
namespace {

using Index = CoveringIndex<int>;

std::optional<int>
cover(const Index &index, std::uint64_t addr, std::uint64_t len, std::uint64_t dev = 0) {
    const int *found = index.cover(nixlBasicDesc(addr, len, dev));
    return found ? std::optional<int>(*found) : std::nullopt;
}

TEST(CoveringIndex, EmptyCoversNothing) {
    const Index index;
    EXPECT_EQ(cover(index, 0, 1), std::nullopt);
    EXPECT_EQ(index.size(), 0u);
}

TEST(CoveringIndex, BordersAreExact) {
    Index index;
    index.insert(nixlBasicDesc(100, 50, 0), 1);
    EXPECT_EQ(cover(index, 100, 50), 1);
    EXPECT_EQ(cover(index, 149, 1), 1);
    EXPECT_EQ(cover(index, 99, 1), std::nullopt);
    EXPECT_EQ(cover(index, 149, 2), std::nullopt);
    EXPECT_EQ(cover(index, 150, 1), std::nullopt);
    EXPECT_EQ(cover(index, 100, 0), std::nullopt) << "an empty query lies nowhere";
    EXPECT_EQ(cover(index, 100, 1, 1), std::nullopt) << "another device";
}

TEST(CoveringIndex, ASmallNestedRegionDoesNotHideTheOneAroundIt) {
    Index index;
    index.insert(nixlBasicDesc(0, 1000, 0), 1);
    index.insert(nixlBasicDesc(100, 10, 0), 2);
    EXPECT_EQ(cover(index, 100, 10), 2);
    EXPECT_EQ(cover(index, 100, 11), 1);
    EXPECT_EQ(cover(index, 500, 100), 1) << "behind the nested region";
}

TEST(CoveringIndex, AdjacentRegionsAreNotOne) {
    Index index;
    index.insert(nixlBasicDesc(0, 100, 0), 1);
    index.insert(nixlBasicDesc(100, 100, 0), 2);
    EXPECT_EQ(cover(index, 50, 100), std::nullopt);
    EXPECT_EQ(cover(index, 99, 1), 1);
    EXPECT_EQ(cover(index, 100, 1), 2);
}

TEST(CoveringIndex, InsertionsOfExactlyARangeAreToldFromTheirNeighbours) {
    Index index;
    for (int value = 0; value < 3; ++value) {
        index.insert(nixlBasicDesc(100, 50, 0), value);
        index.insert(nixlBasicDesc(100, 49, 0), 10 + value);
        index.insert(nixlBasicDesc(100, 51, 0), 20 + value);
        index.insert(nixlBasicDesc(99, 50, 0), 30 + value);
        index.insert(nixlBasicDesc(101, 50, 0), 40 + value);
        index.insert(nixlBasicDesc(100, 50, 1), 50 + value);
    }
    const nixlBasicDesc range(100, 50, 0);
    EXPECT_EQ(index.count(range), 3u);
    ASSERT_NE(index.oldest(range), nullptr);
    EXPECT_EQ(*index.oldest(range), 0);
    ASSERT_NE(index.youngest(range), nullptr);
    EXPECT_EQ(*index.youngest(range), 2);
    for (const nixlBasicDesc &other : {nixlBasicDesc(100, 48, 0), nixlBasicDesc(98, 50, 0),
                                       nixlBasicDesc(102, 50, 0), nixlBasicDesc(100, 50, 2)}) {
        EXPECT_EQ(index.count(other), 0u) << other.addr;
        EXPECT_EQ(index.oldest(other), nullptr) << other.addr;
        EXPECT_EQ(index.youngest(other), nullptr) << other.addr;
    }
}

// C19: memory that was freed and allocated again at the same place, larger.
TEST(CoveringIndex, C19_OfEqualStartsTheLongerServesLongQueries) {
    Index index;
    index.insert(nixlBasicDesc(0x1000, 16384, 0), 1);
    index.insert(nixlBasicDesc(0x1000, 65536, 0), 2);
    EXPECT_EQ(cover(index, 0x1000, 65536), 2);
    EXPECT_EQ(cover(index, 0x1000, 16384), 2);
}

TEST(CoveringIndex, OfEqualRangesTheYoungestServesAndEachCanBeErased) {
    Index index;
    const auto first = index.insert(nixlBasicDesc(0, 10, 0), 1);
    const auto second = index.insert(nixlBasicDesc(0, 10, 0), 2);
    EXPECT_EQ(cover(index, 0, 10), 2);
    const nixlBasicDesc range(0, 10, 0);
    EXPECT_EQ(index.count(range), 2u);
    ASSERT_NE(index.oldest(range), nullptr);
    EXPECT_EQ(*index.oldest(range), 1);
    ASSERT_NE(index.youngest(range), nullptr);
    EXPECT_EQ(*index.youngest(range), 2);
    EXPECT_TRUE(index.erase(nixlBasicDesc(0, 10, 0), second));
    EXPECT_FALSE(index.erase(nixlBasicDesc(0, 10, 0), second));
    EXPECT_EQ(cover(index, 0, 10), 1);
    EXPECT_TRUE(index.erase(nixlBasicDesc(0, 10, 0), first));
    EXPECT_EQ(cover(index, 0, 10), std::nullopt);
}

TEST(CoveringIndex, RangesAtTheEndOfTheAddressSpace) {
    constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
    Index index;
    index.insert(nixlBasicDesc(kMax - 9, 10, 0), 1);
    index.insert(nixlBasicDesc(5, kMax, 1), 2); // unbounded, not from 0
    EXPECT_EQ(cover(index, kMax, 1), 1);
    EXPECT_EQ(cover(index, kMax - 9, 10), 1);
    EXPECT_EQ(cover(index, kMax, 2), std::nullopt) << "a query that wraps";
    EXPECT_EQ(cover(index, kMax - 1, 5, 1), std::nullopt) << "a query that wraps";
    EXPECT_EQ(cover(index, std::uint64_t{5} << 30, 4096, 1), 2);
}

// Against a model that looks at every range: insertions, erasures and queries at random, dense enough that
// ranges nest, overlap, touch and repeat.
TEST(CoveringIndex, AgreesWithAModel) {
    for (const unsigned seed : {1u, 2u, 3u}) {
        std::mt19937 random(seed);
        const auto below = [&](std::uint64_t n) { return random() % n; };
        Index index;

        struct Range {
            nixlBasicDesc desc;
            Index::Age age;
            int value;
        };

        std::vector<Range> model;
        for (int step = 0; step < 4000; ++step) {
            const nixlBasicDesc range(below(60), 1 + below(20), below(2));
            if (model.empty() || below(3) != 0) {
                model.push_back({range, index.insert(range, step), step});
            } else {
                const std::size_t victim = below(model.size());
                ASSERT_TRUE(index.erase(model[victim].desc, model[victim].age));
                model.erase(model.begin() + static_cast<std::ptrdiff_t>(victim));
            }
            if (model.size() > 40)
                for (int i = 0; i < 20; ++i) {
                    ASSERT_TRUE(index.erase(model.back().desc, model.back().age));
                    model.pop_back();
                }
            ASSERT_EQ(index.size(), model.size());
            const nixlBasicDesc query(below(60), 1 + below(12), below(2));
            const Range *best = nullptr;
            const auto rank = [](const Range &r) { return std::make_tuple(r.desc.addr, r.desc.len, r.age); };
            for (const Range &candidate : model) {
                if (candidate.desc.covers(query) && (!best || rank(*best) < rank(candidate)))
                    best = &candidate;
            }
            const int *found = index.cover(query);
            ASSERT_EQ(found != nullptr, best != nullptr) << "step " << step;
            if (best) {
                ASSERT_EQ(*found, best->value) << "step " << step;
            }
        }
    }
}

TEST(CoveringIndex, ForEachGoesByAddressPerDevice) {
    Index index;
    index.insert(nixlBasicDesc(20, 1, 1), 4);
    index.insert(nixlBasicDesc(30, 1, 0), 3);
    index.insert(nixlBasicDesc(10, 5, 0), 1);
    index.insert(nixlBasicDesc(10, 5, 0), 2);
    std::vector<int> order;
    index.forEach([&](int value) { order.push_back(value); });
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

// The number of nodes that a lookup looks at grows with the logarithm of the number of regions, whatever
// their shape.
TEST(CoveringIndex, LookupsVisitLogarithmicallyManyNodes) {
    enum Shape { kSideBySide, kOnion, kOneAroundAll };

    for (const Shape shape : {kSideBySide, kOnion, kOneAroundAll}) {
        for (const std::uint64_t n : {std::uint64_t{100}, std::uint64_t{100000}}) {
            Index index;
            if (shape == kOneAroundAll)
                index.insert(nixlBasicDesc(0, n * 100, 0), -1);
            for (std::uint64_t i = 0; i < n; ++i)
                index.insert(shape == kOnion ? nixlBasicDesc(i, 3 * n - 2 * i, 0)
                                             : nixlBasicDesc(i * 100, 50, 0),
                             static_cast<int>(i));
            std::size_t most = 0;
            for (std::uint64_t i = 0; i < n; i += std::max<std::uint64_t>(1, n / 1000)) {
                std::size_t visited = 0;
                // The last query needs the outer ranges, or lies in a gap.
                const nixlBasicDesc query = shape == kOnion ? nixlBasicDesc(n, n + i + 1, 0)
                                                            : nixlBasicDesc(i * 100 + 20, i % 2 ? 10 : 60, 0);
                index.cover(query, &visited);
                most = std::max(most, visited);
            }
            // A treap is about 2 ln n deep on average, its deepest path rarely beyond 5 ln n; a lookup takes
            // two.
            EXPECT_LE(most, static_cast<std::size_t>(8 * std::log(static_cast<double>(n))))
                << shape << " " << n;
            EXPECT_GE(most, 1u);
        }
    }
}

} // namespace
} // namespace nixl
