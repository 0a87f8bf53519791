#include "utils/serdes/serdes.h"

#include <gtest/gtest.h>

#include "support/log_capture.h"
#include "wire_bytes.h"

namespace nixl {
namespace {

using test::item;
using test::itemOfLength;
using test::kPrefix;
using test::LogCapture;

TEST(SerDesTest, RoundTrip) {
    nixlSerDes writer;
    const std::uint64_t number = 42;
    EXPECT_EQ(writer.addStr("name", std::string("a\0b", 3)), NIXL_SUCCESS);
    EXPECT_EQ(writer.addStr("", ""), NIXL_SUCCESS);
    EXPECT_EQ(writer.addBuf("n", &number, sizeof(number)), NIXL_SUCCESS);
    EXPECT_EQ(writer.exportStr(),
              kPrefix + item("name", std::string("a\0b", 3)) + item("", "") + item("n", test::u64(42)));

    nixlSerDes reader;
    ASSERT_EQ(reader.importStr(writer.exportStr()), NIXL_SUCCESS);
    EXPECT_EQ(reader.getStr("name"), std::string("a\0b", 3));
    EXPECT_EQ(reader.getStr(""), "");
    EXPECT_EQ(reader.getBufLen("n"), 8);
    std::uint64_t read = 0;
    EXPECT_EQ(reader.getBuf("n", &read, sizeof(read)), NIXL_SUCCESS);
    EXPECT_EQ(read, 42u);
}

TEST(SerDesTest, AnEmptyContainerIsItsPrefix) {
    EXPECT_EQ(nixlSerDes().exportStr(), "nixlSerDes|");
    nixlSerDes serdes;
    EXPECT_EQ(serdes.importStr("nixlSerDes|"), NIXL_SUCCESS);
}

TEST(SerDesTest, FailedGetsLogAndDoNotMove) {
    nixlSerDes serdes;
    ASSERT_EQ(serdes.importStr(kPrefix + item("a", "hello")), NIXL_SUCCESS);
    LogCapture log;
    char buffer[8] = "untouch";
    EXPECT_EQ(serdes.getStr("b"), "");
    EXPECT_EQ(serdes.getBufLen("b"), -1);
    EXPECT_EQ(serdes.getBuf("b", buffer, 5), NIXL_ERR_MISMATCH);
    EXPECT_EQ(serdes.getBuf("a", buffer, 4), NIXL_ERR_MISMATCH);
    EXPECT_EQ(serdes.getBuf("a", buffer, 6), NIXL_ERR_MISMATCH);
    EXPECT_STREQ(buffer, "untouch");
    EXPECT_EQ(log.count("'b'", LogLevel::kError), 3u);
    EXPECT_EQ(log.count("item 'a' has 5 bytes", LogLevel::kError), 2u);
    EXPECT_EQ(serdes.getStr("a"), "hello");
}

TEST(SerDesTest, ImpossibleArgumentsAreRefused) {
    LogCapture log;
    nixlSerDes serdes;
    char byte = 'x';
    EXPECT_EQ(serdes.addBuf("a", &byte, -1), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(serdes.addBuf("a", nullptr, 1), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(serdes.getBuf("a", &byte, -1), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(serdes.getBuf("a", nullptr, 1), NIXL_ERR_INVALID_PARAM);
    EXPECT_EQ(serdes.exportStr(), kPrefix);
    EXPECT_EQ(serdes.addBuf("a", nullptr, 0), NIXL_SUCCESS);
    EXPECT_EQ(serdes.getBuf("a", nullptr, 0), NIXL_SUCCESS);
}

TEST(SerDesTest, ImportKeepsTheOldContentIfTheNewIsNoContainer) {
    LogCapture log;
    nixlSerDes serdes;
    ASSERT_EQ(serdes.importStr(kPrefix + item("a", "1") + item("b", "2")), NIXL_SUCCESS);
    EXPECT_EQ(serdes.getStr("a"), "1");
    EXPECT_EQ(serdes.importStr("junk"), NIXL_ERR_MISMATCH);
    EXPECT_EQ(serdes.importStr(""), NIXL_ERR_MISMATCH);
    EXPECT_EQ(serdes.getStr("b"), "2");
    EXPECT_EQ(serdes.importStr(kPrefix + item("c", "3")), NIXL_SUCCESS);
    EXPECT_EQ(serdes.getStr("c"), "3");
}

TEST(SerDesTest, HugeLengthsAreRefused) {
    LogCapture log;
    for (const std::uint64_t length : {0xffffffffull, 0x7fffffffffffffffull, ~0ull - 19, ~0ull}) {
        nixlSerDes serdes;
        ASSERT_EQ(serdes.importStr(kPrefix + itemOfLength("a", length, "hello")), NIXL_SUCCESS);
        EXPECT_EQ(serdes.getStr("a"), "");
        EXPECT_EQ(serdes.getBufLen("a"), -1);
        char byte = 0;
        EXPECT_EQ(serdes.getBuf("a", &byte, 1), NIXL_ERR_MISMATCH);
    }
}

TEST(SerDesTest, BytesAndStrings) {
    EXPECT_EQ(nixlSerDes::_bytesToString("a\0b", 3), std::string("a\0b", 3));
    EXPECT_EQ(nixlSerDes::_bytesToString(nullptr, 3), "");
    EXPECT_EQ(nixlSerDes::_bytesToString("abc", -1), "");
    char buffer[4] = {'x', 'x', 'x', 'x'};
    nixlSerDes::_stringToBytes(buffer, "ab", 3);
    EXPECT_EQ(std::string(buffer, 4), std::string("ab\0x", 4));
    nixlSerDes::_stringToBytes(buffer, "cdefg", 2);
    EXPECT_EQ(std::string(buffer, 4), std::string("cd\0x", 4));
    nixlSerDes::_stringToBytes(buffer, "zz", -1);
    nixlSerDes::_stringToBytes(nullptr, "zz", 2);
    EXPECT_EQ(buffer[0], 'c');
}

} // namespace
} // namespace nixl
