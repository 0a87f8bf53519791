#include "wire/container.h"

#include <gtest/gtest.h>

#include "wire_bytes.h"

namespace nixl {
namespace {

using test::item;
using test::itemOfLength;
using test::kPrefix;
using test::u64;

Reader
readerOf(std::string_view bytes) {
    auto reader = Reader::open(bytes);
    EXPECT_TRUE(reader.ok());
    return reader.value();
}

TEST(WriterTest, WritesTagLengthPayloadSeparator) {
    std::string out(kContainerPrefix);
    Writer writer(out);
    writer.add("tag", std::string_view("a\0b", 3));
    writer.add("", "he", "llo");
    writer.addU64("n", 0x0102);
    writer.addI32("t", 4);
    EXPECT_EQ(out, kPrefix + item("tag", std::string("a\0b", 3)) + item("", "hello") +
                       item("n", std::string("\x02\x01\0\0\0\0\0\0", 8)) +
                       item("t", std::string("\x04\0\0\0", 4)));
}

TEST(ReaderTest, ReadsInOrderAndEndsAtTheEnd) {
    const std::string bytes =
        kPrefix + item("a", "hello") + item("n", u64(7)) + item("t", test::i32(4)) + item("", "");
    Reader reader = readerOf(bytes);
    EXPECT_EQ(reader.peek("a").value(), "hello");
    EXPECT_EQ(reader.take("a").value(), "hello");
    EXPECT_EQ(reader.takeU64("n").value(), 7u);
    EXPECT_EQ(reader.takeI32("t").value(), 4);
    EXPECT_EQ(reader.take("").value(), "");
    EXPECT_EQ(reader.remaining(), 0u);
    EXPECT_EQ(reader.take("").status().code(), NIXL_ERR_MISMATCH);
}

TEST(ReaderTest, OpensOnlyContainers) {
    for (const std::string bytes : {"", "nixl", "nixlSerDes", "nixlSerDes!", "NIXLSERDES|"})
        EXPECT_EQ(Reader::open(bytes).status().code(), NIXL_ERR_MISMATCH) << bytes;
    EXPECT_EQ(readerOf(kPrefix).remaining(), 0u);
}

TEST(ReaderTest, OtherTagLeavesTheCursor) {
    const std::string bytes = kPrefix + item("a", "hello");
    Reader reader = readerOf(bytes);
    const auto missed = reader.take("b");
    EXPECT_EQ(missed.status().code(), NIXL_ERR_MISMATCH);
    EXPECT_EQ(missed.status().message(), "no item 'b' at byte 11");
    EXPECT_EQ(reader.take("a").value(), "hello");
}

TEST(ReaderTest, SeparatorIsNeededButItsValueIsNot) {
    std::string bytes = kPrefix + item("a", "hello");
    bytes.back() = 'x';
    EXPECT_EQ(readerOf(bytes).take("a").value(), "hello");
    bytes.pop_back();
    EXPECT_EQ(readerOf(bytes).take("a").status().code(), NIXL_ERR_MISMATCH);
}

TEST(ReaderTest, EveryTruncationIsRefused) {
    const std::string bytes = kPrefix + item("tag", "hello");
    for (std::size_t length = kPrefix.size(); length < bytes.size(); ++length) {
        Reader reader = readerOf(std::string_view(bytes).substr(0, length));
        EXPECT_FALSE(reader.take("tag").ok()) << length;
        EXPECT_EQ(reader.cursor(), kPrefix.size());
    }
}

TEST(ReaderTest, NoLengthWrapsTheCursor) {
    // Added to the cursor, the last ones come out at every earlier byte of the container.
    std::vector<std::uint64_t> lengths = {6, 0xffffffff, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000};
    for (std::uint64_t back = 0; back < 64; ++back)
        lengths.push_back(~std::uint64_t{0} - back);
    for (const std::uint64_t length : lengths) {
        const std::string bytes = kPrefix + item("a", "x") + itemOfLength("tag", length, "hello");
        Reader reader = readerOf(bytes);
        ASSERT_TRUE(reader.take("a").ok());
        const std::size_t before = reader.cursor();
        EXPECT_EQ(reader.take("tag").status().code(), NIXL_ERR_MISMATCH) << length;
        EXPECT_EQ(reader.cursor(), before);
    }
}

TEST(ReaderTest, NumbersHaveTheirLength) {
    const std::string bytes = kPrefix + item("n", "1234567") + item("t", "12345");
    Reader reader = readerOf(bytes);
    EXPECT_EQ(reader.takeU64("n").status().message(),
              "item 'n' at byte 11 has 7 bytes, a number of 8 is expected");
    EXPECT_TRUE(reader.take("n").ok());
    EXPECT_EQ(reader.takeI32("t").status().code(), NIXL_ERR_MISMATCH);
}

TEST(ReaderTest, CountsMustFitWhatFollows) {
    // Ten times the third one wraps to 4.
    for (const std::uint64_t count : {std::uint64_t{3}, std::uint64_t{0xffffffff},
                                      std::uint64_t{0x199999999999999a}, ~std::uint64_t{0}}) {
        const std::string bytes = kPrefix + item("n", u64(count)) + std::string(29, 'x');
        Reader reader = readerOf(bytes);
        EXPECT_EQ(reader.takeCount("n", 10).status().code(), NIXL_ERR_MISMATCH) << count;
        EXPECT_EQ(reader.cursor(), kPrefix.size());
    }
    const std::string bytes = kPrefix + item("n", u64(2)) + std::string(29, 'x');
    EXPECT_EQ(readerOf(bytes).takeCount("n", 10).value(), 2u);
}

} // namespace
} // namespace nixl
