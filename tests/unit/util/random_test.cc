#include "util/random.h"

#include <gtest/gtest.h>

#include <set>

namespace nixl {
namespace {

TEST(RandomKeys, AreDifferentAndNeverZero) {
    for (const std::size_t expected : {std::size_t{0}, std::size_t{5}, std::size_t{1000}, SIZE_MAX}) {
        RandomKeys keys(expected);
        std::set<std::uint64_t> seen;
        for (int i = 0; i < 1000; ++i)
            seen.insert(keys.next());
        EXPECT_EQ(seen.size(), 1000u) << expected;
        EXPECT_EQ(seen.count(0), 0u);
    }
}

TEST(RandomKeys, OfTwoSourcesDiffer) {
    RandomKeys one(100), two(100);
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 100; ++i) {
        seen.insert(one.next());
        seen.insert(two.next());
    }
    EXPECT_EQ(seen.size(), 200u);
}

} // namespace
} // namespace nixl
