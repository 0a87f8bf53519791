#include "util/concat.h"

#include <gtest/gtest.h>

#include <limits>

namespace nixl {
namespace {

TEST(Concat, JoinsPartsOfAnyType) {
    EXPECT_EQ(concat("block ", 3, " of ", std::uint64_t{8}, ": ", std::string("x"), ' ', -1),
              "block 3 of 8: x -1");
}

TEST(Concat, HexIsPrefixedAndDoesNotStick) {
    EXPECT_EQ(concat(Hex{255}, ' ', 255), "0xff 255");
    EXPECT_EQ(concat(Hex{0}), "0x0");
    EXPECT_EQ(concat(Hex{std::numeric_limits<std::uint64_t>::max()}), "0xffffffffffffffff");
}

TEST(Concat, KeepsNulBytes) {
    EXPECT_EQ(concat(std::string("a\0b", 3), "c"), std::string("a\0bc", 4));
}

} // namespace
} // namespace nixl
