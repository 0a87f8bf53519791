#include "nixl_descriptors.h"

#include <gtest/gtest.h>

#include "support/log_capture.h"
#include "wire_bytes.h"

namespace nixl {
namespace {

using test::desc;
using test::LogCapture;

constexpr std::uint64_t kTop = ~std::uint64_t{0};

TEST(TypesTest, NamesAreTheEnumerators) {
    EXPECT_EQ(nixlEnumStrings::memTypeStr(DRAM_SEG), "DRAM_SEG");
    EXPECT_EQ(nixlEnumStrings::memTypeStr(VRAM_SEG), "VRAM_SEG");
    EXPECT_EQ(nixlEnumStrings::memTypeStr(BLK_SEG), "BLK_SEG");
    EXPECT_EQ(nixlEnumStrings::memTypeStr(OBJ_SEG), "OBJ_SEG");
    EXPECT_EQ(nixlEnumStrings::memTypeStr(FILE_SEG), "FILE_SEG");
    EXPECT_EQ(nixlEnumStrings::memTypeStr(static_cast<nixl_mem_t>(7)), "BAD_SEG");
    EXPECT_EQ(nixlEnumStrings::xferOpStr(NIXL_READ), "READ");
    EXPECT_EQ(nixlEnumStrings::xferOpStr(NIXL_WRITE), "WRITE");
    EXPECT_EQ(nixlEnumStrings::statusStr(static_cast<nixl_status_t>(-15)), "BAD_STATUS");
    const std::pair<int, const char *> statuses[] = {{1, "NIXL_IN_PROG"},
                                                     {0, "NIXL_SUCCESS"},
                                                     {-1, "NIXL_ERR_NOT_POSTED"},
                                                     {-2, "NIXL_ERR_INVALID_PARAM"},
                                                     {-3, "NIXL_ERR_BACKEND"},
                                                     {-4, "NIXL_ERR_NOT_FOUND"},
                                                     {-5, "NIXL_ERR_MISMATCH"},
                                                     {-6, "NIXL_ERR_NOT_ALLOWED"},
                                                     {-7, "NIXL_ERR_REPOST_ACTIVE"},
                                                     {-8, "NIXL_ERR_UNKNOWN"},
                                                     {-9, "NIXL_ERR_NOT_SUPPORTED"},
                                                     {-10, "NIXL_ERR_REMOTE_DISCONNECT"},
                                                     {-11, "NIXL_ERR_CANCELED"},
                                                     {-12, "NIXL_ERR_NO_TELEMETRY"}};
    for (const auto &[value, name] : statuses)
        EXPECT_EQ(nixlEnumStrings::statusStr(static_cast<nixl_status_t>(value)), name);
    EXPECT_EQ(default_metadata_label, "metadata");
    EXPECT_EQ(default_partial_metadata_label, "");
    EXPECT_EQ(nixl_null_agent, "NULL_AGENT");
}

TEST(BasicDescTest, BytesAreTheThreeFields) {
    const nixlBasicDesc original(0x1122334455667788, 64, 3);
    EXPECT_EQ(original.serialize(), desc(0x1122334455667788, 64, 3));
    EXPECT_EQ(nixlBasicDesc(original.serialize()), original);
    EXPECT_EQ(nixlBasicDesc(original.serialize() + "x"), nixlBasicDesc(0, 0, 0));
    EXPECT_EQ(nixlBasicDesc(original.serialize().substr(1)), nixlBasicDesc(0, 0, 0));
}

TEST(BasicDescTest, OrderIsDeviceAddressLength) {
    EXPECT_LT(nixlBasicDesc(9, 9, 0), nixlBasicDesc(1, 1, 1));
    EXPECT_LT(nixlBasicDesc(1, 9, 1), nixlBasicDesc(2, 1, 1));
    EXPECT_LT(nixlBasicDesc(1, 1, 1), nixlBasicDesc(1, 2, 1));
    EXPECT_FALSE(nixlBasicDesc(1, 1, 1) < nixlBasicDesc(1, 1, 1));
}

TEST(BasicDescTest, NothingThatWrapsIsCovered) {
    const nixlBasicDesc region(0x1000, 0x1000, 0);
    EXPECT_TRUE(region.covers(region));
    EXPECT_TRUE(region.covers(nixlBasicDesc(0x1fff, 1, 0)));
    EXPECT_FALSE(region.covers(nixlBasicDesc(0x1fff, 2, 0)));
    EXPECT_FALSE(region.covers(nixlBasicDesc(0xfff, 1, 0)));
    EXPECT_FALSE(region.covers(nixlBasicDesc(0x1000, 1, 1)));
    EXPECT_FALSE(region.covers(nixlBasicDesc(0x1800, kTop, 0)));
    EXPECT_FALSE(region.covers(nixlBasicDesc(0x1800, kTop - 0x7ff, 0)));
    EXPECT_FALSE(region.overlaps(nixlBasicDesc(0x2000, 1, 0)));
    EXPECT_TRUE(region.overlaps(nixlBasicDesc(0x1fff, 1, 0)));
}

TEST(BlobDescTest, BytesAreFieldsThenMetaInfo) {
    const nixlBlobDesc original(1, 2, 3, std::string("a\0b", 3));
    EXPECT_EQ(original.serialize(), desc(1, 2, 3) + std::string("a\0b", 3));
    EXPECT_EQ(nixlBlobDesc(original.serialize()), original);
    EXPECT_EQ(nixlBlobDesc(desc(1, 2, 3)), nixlBlobDesc(1, 2, 3));
    EXPECT_EQ(nixlBlobDesc(desc(1, 2, 3).substr(1)), nixlBlobDesc(0, 0, 0));
    EXPECT_NE(nixlBlobDesc(1, 2, 3, "a"), nixlBlobDesc(1, 2, 3, "b"));
}

TEST(RemoteDescTest, BytesAreFieldsThenAgent) {
    const nixlRemoteDesc original(1, 2, 3, "peer");
    EXPECT_EQ(original.serialize(), desc(1, 2, 3) + "peer");
    EXPECT_EQ(nixlRemoteDesc(original.serialize()), original);
    EXPECT_EQ(nixlRemoteDesc(nixl_blob_t("short")), nixlRemoteDesc(0, 0, 0, ""));
    EXPECT_NE(nixlRemoteDesc(1, 2, 3, "a"), nixlRemoteDesc(1, 2, 3, "b"));
}

TEST(DescriptorsTest, PrintWritesTheFieldsAtInfo) {
    LogCapture log;
    nixlBasicDesc(0x1000, 64, 3).print(" (first)");
    nixlBlobDesc(0x2000, 64, 3, "abc").print("");
    nixlRemoteDesc(0x3000, 64, 3, "peer").print("");
    nixlStrideDesc(0x4000, 64, 3, 128, 5).print("");
    EXPECT_EQ(log.count("addr 0x1000, len 64, devId 3 (first)", LogLevel::kInfo), 1u);
    EXPECT_EQ(log.count("addr 0x2000, len 64, devId 3, 3 bytes of metaInfo", LogLevel::kInfo), 1u);
    EXPECT_EQ(log.count("addr 0x3000, len 64, devId 3, agent peer", LogLevel::kInfo), 1u);
    EXPECT_EQ(log.count("addr 0x4000, len 64, devId 3, stride 128, count 5", LogLevel::kInfo), 1u);
    EXPECT_EQ(log.count("", LogLevel::kWarn), 0u);
}

} // namespace
} // namespace nixl
